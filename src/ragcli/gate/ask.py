"""Ask whether a question can be answered from the documents: search, judge, search in other words, and say.

    search -> judge -> enough: answerable
                    -> not enough: add words that the best passages use (RM3) and search again, at most twice
                    -> still not enough: insufficient, with what was found and what is missing

The judge always judges for the question as it was asked, never for the words that were added to find more. What
follows the verdict follows from it: where the evidence does not suffice, no language model is asked. A verdict is
`needs_review`, between yes and no, when the judge was for it by a hair's breadth (`REVIEW_BAND`), or when the answer
written from the evidence cannot be held against it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ragcli.collection import NO_ENCODER
from ragcli.errors import UsageError
from ragcli.gate.evidence import gather_evidence
from ragcli.gate.trace import AskResult, Attempt, Trace
from ragcli.retrieval.request import StageTime
from ragcli.retrieval.rm3 import CHUNKS, expanded, new_words, rm3_expansion

if TYPE_CHECKING:
    from ragcli.gate.answers import Answer
    from ragcli.gate.evidence import Judge
    from ragcli.gate.trace import Stop
    from ragcli.gate.values import Preset, Verdict
    from ragcli.retrieval.query import Searcher
    from ragcli.retrieval.request import QueryRequest, QueryResult

MOST_RETRIES: Final = 2
"""How often a question that failed is searched for in other words."""
SMALL_GAIN: Final = 0.01
"""A retry that lifts the score by less than this is the last."""
REVIEW_BAND: Final = 0.05
"""A score that reaches the threshold by less than this is for a person to look at."""

Search = Callable[["QueryRequest"], "QueryResult"]


def ask(
    searcher: Searcher,
    request: QueryRequest,
    *,
    judge: Judge,
    preset: Preset = "balanced",
    retries: int = MOST_RETRIES,
    override: bool = False,
    question: str | None = None,
    search: Search | None = None,
    answer: Callable[[AskResult], Answer | None] | None = None,
) -> AskResult:
    """The verdict on a question, with its evidence and the record of how it was reached.

    `judge` comes from `ragcli.gate.open_judge`. `retries` (0 to 2) is how often a question that fails is searched for
    with further words. `override` lets a question through that the gate would stop; the trace says so. `question` is
    what is judged where `request.text` is something else, such as a rewriting. `search` stands in for
    `searcher.query`, for query techniques. `answer` writes an answer from the result once the gate is passed, and is
    not called otherwise.

    Raises UsageError, and what the search raises.
    """
    result = decide(
        searcher,
        request,
        judge=judge,
        preset=preset,
        retries=retries,
        override=override,
        question=question,
        search=search,
    )
    return result if answer is None else with_answer(result, answer)


def decide(
    searcher: Searcher,
    request: QueryRequest,
    *,
    judge: Judge,
    preset: Preset = "balanced",
    retries: int = MOST_RETRIES,
    override: bool = False,
    question: str | None = None,
    search: Search | None = None,
) -> AskResult:
    """`ask` up to the verdict, before any answer."""
    if not 0 <= retries <= MOST_RETRIES:
        raise UsageError(f"--retries must lie between 0 and {MOST_RETRIES}, not {retries}.")
    asked = question if question is not None else request.text
    # Feedback and judge look at ten chunks, however few are to be shown.
    deep = replace(request, top=max(request.top, CHUNKS))
    tries: list[_Try] = []
    current = deep
    while True:
        tries.append(_tried(searcher, current, asked, judge, preset, search or searcher.query))
        stop = _stop([each.attempt for each in tries], retries)
        following = None if stop else _in_other_words(searcher, deep, current, tries[-1].result)
        if following is None:
            break
        current = following
    best = max(range(len(tries)), key=lambda at: (tries[at].attempt.decision.passed, tries[at].attempt.decision.score))
    chosen = tries[best]
    decision = chosen.attempt.decision
    review = _close_call(decision.score - decision.threshold) if decision.passed else ()
    verdict: Verdict = "needs_review" if review else "answerable" if decision.passed or override else "insufficient"
    return AskResult(
        question=asked,
        verdict=verdict,
        decision=decision,
        hits=chosen.result.hits[: request.top],
        trace=Trace(
            judge=decision.judge,
            preset=preset,
            attempts=tuple(each.attempt for each in tries),
            chosen=best,
            stopped=stop or "nothing to add",
            pipeline=chosen.result.pipeline,
            reranker=chosen.result.reranker,
            overridden=override and not decision.passed,
            degraded=_degraded(searcher, tries),
            warnings=tuple(dict.fromkeys(warning for each in tries for warning in each.result.warnings)),
        ),
        review=review,
    )


def with_answer(result: AskResult, answer: Callable[[AskResult], Answer | None]) -> AskResult:
    """The result with an answer to it; as it is where the verdict is `insufficient` or nothing can be answered.

    A sentence that cites nothing turns the verdict to `needs_review`.
    """
    if result.verdict == "insufficient":
        return result
    started = time.perf_counter()
    written = answer(result)
    stages = [*result.trace.stages, StageTime("answer", time.perf_counter() - started, written.by if written else "")]
    if written is None:
        return result
    review = [*result.review, *_uncited(written)]
    return replace(
        result,
        verdict="needs_review" if review else result.verdict,
        review=tuple(review),
        answer=written,
        trace=replace(result.trace, stages=tuple(stages)),
    )


@dataclass(frozen=True, slots=True)
class _Try:
    """An attempt, what it found, and what the judge had to do without."""

    attempt: Attempt
    result: QueryResult
    degraded: str | None


def _tried(
    searcher: Searcher, request: QueryRequest, question: str, judge: Judge, preset: Preset, search: Search
) -> _Try:
    result = search(request)
    started = time.perf_counter()
    evidence = gather_evidence(searcher, request, question=question, result=result)
    decision = judge.judge(evidence, preset)
    judged = StageTime("judge", time.perf_counter() - started, decision.judge)
    ids = tuple(hit.chunk.chunk_id for hit in result.hits)
    attempt = Attempt(request.text, request.expansion, decision, ids, (*result.stages, judged))
    return _Try(attempt, result, evidence.degraded)


def _stop(attempts: Sequence[Attempt], retries: int) -> Stop | None:
    """Why there should be no further attempt, or None."""
    *earlier, last = attempts
    if last.decision.passed:
        return "passed"
    if len(earlier) >= retries:
        return "no retries left"
    if earlier and last.decision.score < max(each.decision.score for each in earlier) + SMALL_GAIN:
        return "no gain"
    return None


def _in_other_words(
    searcher: Searcher, request: QueryRequest, current: QueryRequest, found: QueryResult
) -> QueryRequest | None:
    """The request with the words that its best passages add; None when there is no new one among them."""
    words = rm3_expansion(searcher, request, found)
    return expanded(request, words) if new_words(current, words) else None


def _degraded(searcher: Searcher, tries: Sequence[_Try]) -> str | None:
    if told := next((each.degraded for each in tries if each.degraded), None):
        return told
    bare = [each.collection for each in searcher.snapshots if each.settings.encoder == NO_ENCODER]
    if not bare:
        return None
    return f"Without an encoder, {', '.join(bare)} was searched and judged by words alone."


def _close_call(margin: float) -> tuple[str, ...]:
    if margin >= REVIEW_BAND:
        return ()
    return (f"The evidence suffices by a margin of {margin:.2f} only; less than {REVIEW_BAND:g} wants a second look.",)


def _uncited(answer: Answer) -> tuple[str, ...]:
    count = len(answer.uncited)
    if not count:
        return ()
    return (f"{count} of the answer's {len(answer.sentences)} sentences {'cites' if count == 1 else 'cite'} nothing.",)
