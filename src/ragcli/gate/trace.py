"""What `ask` gives back: the verdict, what it rests on, and everything that happened on the way to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ragcli.gate.answers import Answer
    from ragcli.gate.faithfulness import Faithfulness
    from ragcli.gate.values import Decision, Preset, Verdict
    from ragcli.records import Hit
    from ragcli.retrieval.request import StageTime

Stop = Literal["passed", "no retries left", "no gain", "nothing to add"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One search and its judgement.

    `query` is what was searched for, `added` the words looked for beside it, each with its weight against 1 for a
    word of the question. `evidence` has the ids of the chunks that were judged, best first; `stages` the time of
    each stage of the search and, last, of the judge.
    """

    query: str
    added: tuple[tuple[str, float], ...]
    decision: Decision
    evidence: tuple[str, ...]
    stages: tuple[StageTime, ...]

    @property
    def seconds(self) -> float:
        """How long it took."""
        return sum(stage.seconds for stage in self.stages)


@dataclass(frozen=True, slots=True)
class Trace:
    """The record of one question.

    `chosen` is the place among the `attempts` of the one that the verdict rests on, and `stopped` says why there was
    no other. `overridden`: the gate said no and was told to let the question through. `degraded` is a sentence on
    what the search or the judge had to do without, None when nothing was missing. `stages` are the times of what came
    after the attempts: writing an answer and checking it.
    """

    judge: str
    preset: Preset
    attempts: tuple[Attempt, ...]
    chosen: int
    stopped: Stop
    pipeline: str
    reranker: str | None
    overridden: bool = False
    degraded: str | None = None
    warnings: tuple[str, ...] = ()
    stages: tuple[StageTime, ...] = ()

    @property
    def seconds(self) -> float:
        """How long everything took."""
        return sum(attempt.seconds for attempt in self.attempts) + sum(stage.seconds for stage in self.stages)


@dataclass(frozen=True, slots=True)
class AskResult:
    """The verdict on a question with its evidence, and its answer where one was asked for.

    `decision` is the judge's on the attempt chosen, and `hits` is what that attempt found, best first; an answer's
    [n] is the n-th of them. `faithfulness` says of each sentence of the answer whether they support it. `review`
    says, one sentence each, why a verdict is `needs_review`.
    """

    question: str
    verdict: Verdict
    decision: Decision
    hits: tuple[Hit, ...]
    trace: Trace
    answer: Answer | None = None
    faithfulness: Faithfulness | None = None
    review: tuple[str, ...] = ()
