"""How a pipeline of a comparison is asked: plainly, or by the query techniques among its options.

A technique's plan is made once for each question and serves both passes, so that a language model is asked as often
as a person's query would ask it. What it took, and where it failed, is told with the figures: a row in which the
model failed for half of the questions measures something else than its label says.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ragcli.evaluation.judgements import Topic
from ragcli.evaluation.specs import PipelineSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ragcli.retrieval.query import Searcher
    from ragcli.retrieval.request import QueryRequest, QueryResult, RankedChunks
    from ragcli.retrieval.techniques import ModelInUse, Plan

# One question may be too much for a model; after so many in a row it is taken to be away.
_FAILURES: Final = 3


class Asker:
    """Puts topics to a searcher as one pipeline does."""

    def __init__(self, searcher: Searcher, spec: PipelineSpec, in_use: ModelInUse | None = None) -> None:
        self._searcher = searcher
        self._spec = spec
        self._notes = _Notes()
        self._model = in_use.model if in_use is not None else None
        self._before = getattr(self._model, "spent", None)
        if spec.techniques:
            from ragcli.llm.giving_up import GivesUp
            from ragcli.retrieval.techniques import steps_of
            from ragcli.retrieval.techniques.asking import NO_MODEL

            steady = GivesUp(self._model, _FAILURES) if self._model is not None else None
            prompts = in_use.prompts if in_use is not None else None
            self._steps = steps_of(spec.techniques, steady, prompts=prompts)
            self._lacking = spec.techniques.need_a_model if self._model is None else ()
            self._why_not = (in_use.why_not if in_use is not None else "") or NO_MODEL

    def ask(self, topic: Topic, top: int, *, timed: bool = True) -> Callable[[int, int], RankedChunks]:
        """Do what answers a person, and say how to rank in depth: down to so many chunks or documents.

        Unless it is `timed`, only what the ranking needs is done.
        """
        request = self._spec.request(topic.text, top)
        if not self._spec.techniques:
            if timed:
                self._searcher.query(request)
            return lambda chunks, documents: self._searcher.ranking(request, chunks=chunks, documents=documents)
        from ragcli.retrieval.techniques import deep_ranking, run

        planned = self._plan(request, topic)
        self._notes.count(run(self._searcher, planned, self._steps).plan if timed else planned)
        return lambda chunks, documents: deep_ranking(self._searcher, planned, chunks=chunks, documents=documents)

    def query(self, topic: Topic, top: int) -> QueryResult:
        """What a person gets for the question."""
        request = self._spec.request(topic.text, top)
        if not self._spec.techniques:
            return self._searcher.query(request)
        from ragcli.retrieval.techniques import run

        return run(self._searcher, self._plan(request, topic), self._steps).result

    def _plan(self, request: QueryRequest, topic: Topic) -> Plan:
        from ragcli.retrieval.techniques import plan

        return plan(self._searcher, request, self._steps, topic.history, lacking=self._lacking, why=self._why_not)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about this pipeline's language model."""
        return tuple(f"{self._spec.label}: {each}" for each in (*self._spending(), *self._notes.sentences()))

    def _spending(self) -> Iterator[str]:
        after, before = getattr(self._model, "spent", None), self._before
        if not self._spec.techniques or self._model is None or after is None or before is None or after == before:
            return
        asked, known = after.calls - before.calls, after.cached - before.cached
        cost = f", at a cost of {after.cost - before.cost:.4f}" if after.cost > before.cost else ""
        yield (
            f"{self._model.name} was asked {asked:,} times ({after.tokens - before.tokens:,} tokens{cost}); "
            f"{known:,} answers came from the cache."
        )


@dataclass(slots=True)
class _Notes:
    """In how many questions which techniques failed."""

    questions: int = 0
    failed: Counter[tuple[str, ...]] = field(default_factory=Counter)
    why: str = ""

    def count(self, planned: Plan) -> None:
        self.questions += 1
        if planned.failed:
            self.failed[planned.failed] += 1
            self.why = self.why or planned.why

    def sentences(self) -> Iterator[str]:
        for options, number in self.failed.items():
            yield (
                f"{number} of {self.questions} questions were asked without {', '.join(options)}, as a query would be. "
                f"{self.why}"
            )
