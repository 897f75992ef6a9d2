"""Open a judge by name: sufficiency judges and faithfulness judges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragcli.errors import UsageError
from ragcli.grounding.faithfulness.claims import FAITHFULNESS_JUDGES, FaithfulnessJudge
from ragcli.grounding.sufficiency.evidence import SUFFICIENCY_JUDGES

if TYPE_CHECKING:
    from ragcli.collection import Collection
    from ragcli.grounding.sufficiency.calibration_models import Calibration
    from ragcli.grounding.sufficiency.evidence import SufficiencyJudge
    from ragcli.llm.chat_model import LanguageModel
    from ragcli.retrieval.searcher import Searcher


def open_judge(name: str, collections: Sequence[Collection]) -> SufficiencyJudge:
    """The judge of that name for a search over some collections.

    `calibrated` goes by the calibration that a collection has of its own, if it is searched alone, and by the shipped
    one else. Raises UsageError for a name that there is not, CollectionError for a calibration that is damaged.
    """
    if name == "heuristic":
        from ragcli.grounding.sufficiency.heuristic import HeuristicJudge

        return HeuristicJudge()
    if name == "calibrated":
        from ragcli.grounding.sufficiency.calibrated import CalibratedJudge

        return CalibratedJudge(own_calibration(collections[0]) if len(collections) == 1 else None)
    raise UsageError(f"There is no judge '{name}'; choose one of {', '.join(SUFFICIENCY_JUDGES)}.")


def own_calibration(collection: Collection) -> Calibration | None:
    """What `ragcli eval --calibrate-gate` learned of a collection; None if nothing that fits its present model."""
    from ragcli.grounding.sufficiency.calibration_models import decode_calibration

    stored = collection.calibration()
    if stored is None:
        return None
    calibration = decode_calibration(stored.text)
    return calibration if calibration.encoder == stored.fingerprint else None


def open_faithfulness_judge(
    name: str = "semantic",
    *,
    searcher: Searcher | None = None,
    model: LanguageModel | None = None,
    prompt: str | None = None,
) -> FaithfulnessJudge:
    """The judge of that name.

    `semantic` takes its encoder, and how rare words are, from the searcher's collections; without one, or where they
    have no encoder, it goes by words alone. `llm` needs a model, and takes a prompt in place of the one that comes
    with ragcli. Raises UsageError.
    """
    if name == "heuristic":
        from ragcli.grounding.faithfulness.word_overlap import WordOverlapJudge

        return WordOverlapJudge()
    if name == "semantic":
        from ragcli.grounding.faithfulness.semantic import SemanticJudge, token_vectors

        return SemanticJudge(token_vectors(searcher) if searcher is not None else None)
    if name == "llm":
        if model is None:
            raise UsageError("The faithfulness judge 'llm' needs a language model.")
        from ragcli.grounding.faithfulness.llm_judge import LlmFaithfulnessJudge

        return LlmFaithfulnessJudge(model, prompt)
    raise UsageError(f"There is no faithfulness judge '{name}'; choose one of {', '.join(FAITHFULNESS_JUDGES)}.")
