"""Open a judge by name: sufficiency judges and faithfulness judges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ragcli.errors import PluginError, UsageError
from ragcli.grounding.faithfulness.claims import FAITHFULNESS_JUDGES, FaithfulnessJudge
from ragcli.grounding.sufficiency.evidence import SUFFICIENCY_JUDGES
from ragcli.plugins import Registry, is_plugin_name

if TYPE_CHECKING:
    from ragcli.collection import Collection
    from ragcli.grounding.sufficiency.calibration_models import Calibration
    from ragcli.grounding.sufficiency.evidence import SufficiencyJudge
    from ragcli.llm.chat_model import LanguageModel
    from ragcli.retrieval.searcher import Searcher


class JudgePlugin(Protocol):
    """The judges of an installed package; what an entry point of `ragcli.judges` names. It has one of them or both."""

    def sufficiency(self, collections: Sequence[Collection]) -> SufficiencyJudge:
        """A judge of whether what was found in these collections answers a question."""

    def faithfulness(self, searcher: Searcher | None) -> FaithfulnessJudge:
        """A judge of whether passages say what a sentence claims; `searcher` is what found them, if there is one."""


JUDGE_PLUGINS: Final[Registry[JudgePlugin]] = Registry("judges", {})


def open_judge(name: str, collections: Sequence[Collection]) -> SufficiencyJudge:
    """The judge of that name for a search over some collections.

    `calibrated` goes by the calibration that a collection has of its own, if it is searched alone, and by the shipped
    one else. `plugin:NAME` is the judge of an installed package. Raises UsageError for a name that there is not,
    PluginError for a plugin that cannot be used, CollectionError for a calibration that is damaged.
    """
    if is_plugin_name(name):
        return _plugin_judge(name, "sufficiency").sufficiency(collections)
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
    with ragcli. `plugin:NAME` is the judge of an installed package. Raises UsageError and PluginError.
    """
    if is_plugin_name(name):
        return _plugin_judge(name, "faithfulness").faithfulness(searcher)
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


def _plugin_judge(name: str, kind: str) -> JudgePlugin:
    judges = JUDGE_PLUGINS.get(name)
    if not callable(getattr(judges, kind, None)):
        raise PluginError(f"The judges of '{name}' have none of {kind}; `ragcli plugins` lists what packages bring.")
    return judges
