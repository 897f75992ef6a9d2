"""Ask: search, judge sufficiency, retry with expanded queries; verdict, evidence and trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from ragcli.errors import LanguageModelError, UsageError
from ragcli.grounding.answers import AnswerWriter, answer_faithfulness
from ragcli.grounding.sufficiency.evidence import gather_evidence
from ragcli.retrieval.expansion.query_plan import expand_plan
from ragcli.retrieval.expansion.rm3 import RM3_CHUNKS, expand_request, new_terms, rm3_expansion
from ragcli.retrieval.pipelines import PIPELINES
from ragcli.retrieval.request import QueryResult, StageTime

if TYPE_CHECKING:
    from ragcli.grounding.answers import Answer
    from ragcli.grounding.faithfulness.claims import Faithfulness, FaithfulnessJudge
    from ragcli.grounding.sufficiency.evidence import AnswerVerdict, Decision, Preset, SufficiencyJudge
    from ragcli.retrieval.request import QueryPlan, QueryRequest
    from ragcli.retrieval.searcher import Searcher
    from ragcli.types import Hit


MAX_RETRIES: Final = 2
"""How often a question that failed is searched for in other words."""
MIN_GAIN: Final = 0.01
"""A retry that lifts the score by less than this is the last."""
REVIEW_BAND: Final = 0.05
"""A score that reaches the threshold by less than this is for a person to look at."""

Chosen = TypeVar("Chosen")
Value = TypeVar("Value")


def ask(
    searcher: Searcher,
    request: QueryRequest,
    *,
    judge: SufficiencyJudge,
    preset: Preset = "balanced",
    retries: int = MAX_RETRIES,
    override: bool = False,
    writers: Sequence[AnswerWriter] = (),
    judges: Sequence[FaithfulnessJudge] = (),
) -> AskResult:
    """The verdict on a question, with its evidence and the record of how it was reached.

    `judge` comes from `ragcli.grounding.open_judge`. `retries` (0 to 2) is how often a question that fails is searched
    for with further words. `override` lets a question through that the gate would stop; the trace says so. What is
    judged is the question as `request.rewrite` has put it, or the text of what hits are to be like. Once the gate is
    passed, and only then, the `writers` write an answer and the `judges` hold it against the hits: see `with_answer`.

    Raises UsageError, and what the search raises.
    """
    result = decide(searcher, request, judge=judge, preset=preset, retries=retries, override=override)
    return with_answer(result, writers, judges) if writers else result


def decide(
    searcher: Searcher,
    request: QueryRequest,
    *,
    judge: SufficiencyJudge,
    preset: Preset = "balanced",
    retries: int = MAX_RETRIES,
    override: bool = False,
) -> AskResult:
    """`ask` up to the verdict, before any answer."""
    if not 0 <= retries <= MAX_RETRIES:
        raise UsageError(f"--retries must lie between 0 and {MAX_RETRIES}, not {retries}.")
    # Feedback and judge look at ten whole chunks, however few are to be shown, and in whatever form.
    deep = replace(request, top=max(request.top, RM3_CHUNKS), group=False, compress=None)
    planned = searcher.plan(deep)
    asked = planned.question or searcher.question_text(request)
    tries: list[_AttemptState] = []
    current, plan = deep, planned
    while True:
        tries.append(_tried(searcher, current, plan, asked, judge, preset))
        stop = _stop([each.attempt for each in tries], retries)
        following = None if stop else _expanded_request(searcher, deep, current, tries[-1].result)
        if following is None:
            break
        current, plan = following, expand_plan(planned, deep, following)
    best = max(range(len(tries)), key=lambda at: (tries[at].attempt.decision.passed, tries[at].attempt.decision.score))
    chosen = tries[best]
    decision = chosen.attempt.decision
    review = _close_call(decision.score - decision.threshold) if decision.passed else ()
    verdict: AnswerVerdict = (
        "needs_review" if review else "answerable" if decision.passed or override else "insufficient"
    )
    found, whole = _shown(searcher, request, chosen)
    return AskResult(
        question=asked,
        verdict=verdict,
        decision=decision,
        found=found,
        passages=whole.hits,
        trace=AskTrace(
            judge=decision.judge,
            preset=preset,
            attempts=tuple(each.attempt for each in tries),
            chosen=best,
            stopped=stop or "nothing to add",
            pipeline=chosen.result.pipeline,
            reranker=chosen.result.reranker,
            overridden=override and not decision.passed,
            degraded=chosen.degraded,
            warnings=tuple(dict.fromkeys(warning for each in tries for warning in each.result.warnings)),
        ),
        review=review,
    )


def with_answer(
    result: AskResult, writers: Sequence[AnswerWriter], judges: Sequence[FaithfulnessJudge] = ()
) -> AskResult:
    """The result with an answer to it; as it is where the verdict is `insufficient`, and then no writer is called.

    The first of the writers that has an answer is heard, and the first of the judges that has a verdict on it: those
    after it are for when a language model fails, of which the trace has a warning. A sentence that cites nothing, or
    that its passages do not support, turns the verdict to `needs_review`.
    """
    if result.verdict == "insufficient":
        return result
    stages = list(result.trace.stages)
    warnings = list(result.trace.warnings)
    started = time.perf_counter()
    answer = _first_working(lambda writer: writer(result), writers, warnings)
    stages.append(StageTime("answer", time.perf_counter() - started, answer.by if answer else "nothing to say"))
    faithfulness = None
    review = list(result.review)
    if answer is not None:
        review += _uncited(answer)
        if judges:
            started = time.perf_counter()
            faithfulness = _first_working(
                lambda judge: answer_faithfulness(answer, result.hits, judge), judges, warnings
            )
            stages.append(StageTime("check", time.perf_counter() - started, faithfulness.judge if faithfulness else ""))
            review += _unsupported(faithfulness)
    return replace(
        result,
        verdict="needs_review" if review else result.verdict,
        review=tuple(review),
        answer=answer,
        faithfulness=faithfulness,
        trace=replace(result.trace, stages=tuple(stages), warnings=tuple(dict.fromkeys(warnings))),
    )


@dataclass(frozen=True, slots=True)
class _AttemptState:
    """An attempt, how it was asked, what it found, and what the judge had to do without."""

    attempt: SearchAttempt
    plan: QueryPlan
    result: QueryResult
    degraded: str | None


def _tried(
    searcher: Searcher,
    request: QueryRequest,
    plan: QueryPlan,
    question: str,
    judge: SufficiencyJudge,
    preset: Preset,
) -> _AttemptState:
    result = searcher.query(request, plan=plan)
    started = time.perf_counter()
    evidence = gather_evidence(searcher, request, question=question, result=result)
    decision = judge.judge(evidence, preset)
    judged = StageTime("judge", time.perf_counter() - started, decision.judge)
    ids = tuple(hit.chunk.chunk_id for hit in result.hits)
    attempt = SearchAttempt(request.text, request.expansion, decision, ids, (*result.stages, judged))
    return _AttemptState(attempt, plan, result, evidence.degraded)


def _shown(searcher: Searcher, request: QueryRequest, chosen: _AttemptState) -> tuple[QueryResult, QueryResult]:
    """What the attempt found as the request wants it shown, and the same with whole passages."""
    whole = replace(chosen.result, hits=chosen.result.hits[: request.top], stages=chosen.attempt.stages)
    if request.group or request.decompose:
        whole = searcher.query(replace(request, compress=None), plan=chosen.plan)
    return whole if request.compress is None else searcher.query(request, plan=chosen.plan), whole


def _stop(attempts: Sequence[SearchAttempt], retries: int) -> StopReason | None:
    """Why there should be no further attempt, or None."""
    *earlier, last = attempts
    if last.decision.passed:
        return "passed"
    if len(earlier) >= retries:
        return "no retries left"
    if earlier and last.decision.score < max(each.decision.score for each in earlier) + MIN_GAIN:
        return "no gain"
    return None


def _expanded_request(
    searcher: Searcher, request: QueryRequest, current: QueryRequest, found: QueryResult
) -> QueryRequest | None:
    """The request with the words that its best passages add; None when there is no new one among them."""
    if request.like is not None and "bm25" not in PIPELINES[request.pipeline].stages:
        return None  # There is no text for them to go behind.
    words = rm3_expansion(searcher, request, found)
    return expand_request(request, words) if new_terms(current, words) else None


def _first_working(
    call: Callable[[Chosen], Value | None], choices: Sequence[Chosen], warnings: list[str]
) -> Value | None:
    """What the first of the choices gives that does not fail for want of a language model."""
    for choice in choices:
        try:
            found = call(choice)
        except LanguageModelError as error:
            warnings.append(str(error))
            continue
        if found is not None:
            return found
    return None


def _close_call(margin: float) -> tuple[str, ...]:
    if margin >= REVIEW_BAND:
        return ()
    return (f"The evidence suffices by a margin of {margin:.2f} only; less than {REVIEW_BAND:g} wants a second look.",)


def _uncited(answer: Answer) -> tuple[str, ...]:
    count = len(answer.uncited)
    if not count:
        return ()
    return (f"{count} of the answer's {len(answer.sentences)} sentences {'cites' if count == 1 else 'cite'} nothing.",)


def _unsupported(faithfulness: Faithfulness | None) -> tuple[str, ...]:
    if faithfulness is None:
        return ("No judge could say whether the answer is supported by its evidence.",)
    count = len(faithfulness.unsupported)
    if not count:
        return ()
    said = "is" if count == 1 else "are"
    return (f"{count} of the answer's {len(faithfulness.sentences)} sentences {said} not supported by the evidence.",)


StopReason = Literal["passed", "no retries left", "no gain", "nothing to add"]


@dataclass(frozen=True, slots=True)
class SearchAttempt:
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
class AskTrace:
    """The record of one question.

    `chosen` is the place among the `attempts` of the one that the verdict rests on, and `stopped` says why there was
    no other. `overridden`: the gate said no and was told to let the question through. `degraded` is a sentence on
    what the search or the judge had to do without, None when nothing was missing. `stages` are the times of what came
    after the attempts: writing an answer and checking it.
    """

    judge: str
    preset: Preset
    attempts: tuple[SearchAttempt, ...]
    chosen: int
    stopped: StopReason
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

    `decision` is the judge's on the attempt chosen, and `found` is what that attempt found, as it is shown: grouped or
    shortened, if the request says so; an answer's [n] is the hit of rank n. `passages` are its hits as they were
    judged, in whole. `faithfulness` says of each sentence of the answer whether they support it. `review`
    says, one sentence each, why a verdict is `needs_review`.
    """

    question: str
    verdict: AnswerVerdict
    decision: Decision
    found: QueryResult
    passages: tuple[Hit, ...]
    trace: AskTrace
    answer: Answer | None = None
    faithfulness: Faithfulness | None = None
    review: tuple[str, ...] = ()

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What is shown as evidence, best first."""
        return self.found.hits
