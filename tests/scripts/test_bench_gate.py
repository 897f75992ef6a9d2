"""What the gate's coefficients are fitted on never meets what they are measured on."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "scripts" / "bench"


@pytest.fixture(scope="module")
def sets() -> ModuleType:
    specification = importlib.util.spec_from_file_location("gate_sets", BENCH / "gate_sets.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["gate_sets"] = module
    specification.loader.exec_module(module)
    return module


def test_no_off_topic_question_is_both_fitted_and_measured(sets: ModuleType) -> None:
    fitted, measured = sets.off_topic("fit"), sets.off_topic("test")
    assert len({*fitted}) == len({*measured}) == 100
    assert not {each.casefold() for each in fitted} & {each.casefold() for each in measured}
    made = sets.technical(200, 1)
    assert len({*made}) == 200
    assert made == sets.technical(200, 1)
    assert not {*made} & {*measured}


def test_a_lost_claim_keeps_none_of_its_documents_and_a_kept_one_at_least_one(sets: ModuleType) -> None:
    qrels = {f"c{n}": frozenset({f"d{n}", f"d{n % 7}"}) for n in range(30)}
    chosen = sets.reduction(qrels, 1)
    assert len(chosen.lost) == 10
    assert all(qrels[claim] <= chosen.removed for claim in chosen.lost)
    assert all(qrels[claim] - chosen.removed for claim in chosen.kept)
    assert not set(chosen.lost) & set(chosen.kept)
    assert chosen == sets.reduction(qrels, 1)
    assert chosen != sets.reduction(qrels, 2)


def test_claims_that_cite_a_document_in_common_are_one_family(sets: ModuleType) -> None:
    qrels = {"a": frozenset("12"), "b": frozenset("3"), "c": frozenset("23"), "d": frozenset("4"), "e": frozenset("1")}
    family = sets.families(qrels)
    assert family["a"] == family["c"] == family["b"] == family["e"]
    assert family["d"] != family["a"]
