"""The agent that `ragcli ask --agent` runs: the roles that go together, with a language model and without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ragcli.agent.defaults import splitting_planner
from ragcli.agent.gated import gate_evaluator
from ragcli.agent.language import make_llm_evaluator, make_llm_formulator, make_llm_planner
from ragcli.agent.loop import SingleContextAgent, make_search_agent
from ragcli.agent.merging import score_reranker
from ragcli.agent.roles import Evaluator
from ragcli.agent.sources import CollectionRetriever, joined, pooled
from ragcli.agent.values import Budget, Judgement, Result, SubTask
from ragcli.errors import LanguageModelAway
from ragcli.llm.giving_up import GivesUp

if TYPE_CHECKING:
    from ragcli.gate.evidence import Judge
    from ragcli.gate.values import JudgeName, Preset
    from ragcli.llm.protocols import LanguageModel

ROUNDS: Final = 3
KEPT: Final = 10
"""Results that a round keeps at most where a language model judges. It reads them all, and the user sees the best."""


def standard_agent(
    sources: Mapping[str, CollectionRetriever],
    *,
    judge: Judge | JudgeName = "calibrated",
    preset: Preset = "balanced",
    model: LanguageModel | None = None,
    rounds: int = ROUNDS,
    descriptions: Mapping[str, str] | None = None,
    prompts: Path | None = None,
    notify: Callable[[str], None] | None = None,
) -> SingleContextAgent:
    """An agent over collections, which searches those of a sub-task in one pool.

    With a `model`, that plans, puts goals in other words, and says what is missing. Without one, or where it fails,
    the question is taken apart by its seams, the gate (`judge`, `preset`) says whether the evidence suffices, and the
    next round looks for words out of what was found (RM3). `descriptions` tell the model what a source is about;
    `prompts` is a folder of the user's own. `notify` is told of what fails.
    """
    budget = Budget(max_rounds=rounds, max_sources_per_task=max(len(sources), 1))
    gate = gate_evaluator(sources, judge=judge, preset=preset, prerank=score_reranker)
    if model is None:
        return make_search_agent(
            joined(sources),
            planner=splitting_planner,
            formulator=pooled(),
            evaluator=gate,
            reranker=score_reranker,
            budget=budget,
        )
    # One that hangs costs its time limit, which no role and no round should pay again.
    model = GivesUp(model, counted=LanguageModelAway)
    evaluator = make_llm_evaluator(
        model=model,
        select_strategy="top_k",
        select_kwargs={"max_k": KEPT},
        prerank=score_reranker,
        prompts=prompts,
        notify=notify,
    )
    return make_search_agent(
        joined(sources),
        planner=make_llm_planner(
            model=model, descriptions=descriptions, otherwise=splitting_planner, prompts=prompts, notify=notify
        ),
        formulator=pooled(make_llm_formulator(model=model, prompts=prompts, notify=notify)),
        evaluator=_or_gate(evaluator, gate),
        reranker=score_reranker,
        budget=budget,
    )


def _or_gate(evaluator: Evaluator, gate: Evaluator) -> Evaluator:
    """The language model's word, or the gate's where it has none."""

    def judged(task: SubTask, results: Sequence[Result]) -> Judgement:
        judgement = evaluator(task, results)
        return judgement if judgement.signals.get("judged", True) else gate(task, results)

    return judged
