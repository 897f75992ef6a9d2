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
from typing import TYPE_CHECKING, Final, TypeVar

from ragcli.errors import LanguageModelError, UsageError
from ragcli.gate.evidence import gather_evidence
from ragcli.gate.faithfulness import answer_faithfulness
from ragcli.gate.trace import AskResult, Attempt, Trace
from ragcli.retrieval.request import StageTime
from ragcli.retrieval.rm3 import CHUNKS, expanded, new_words, rm3_expansion

if TYPE_CHECKING:
    from ragcli.gate.answers import Answer
    from ragcli.gate.evidence import Judge
    from ragcli.gate.faithfulness import Faithfulness, FaithfulnessJudge
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
Writer = Callable[[AskResult], "Answer | None"]
"""Writes an answer to a result, None where there is nothing to say, or raises LanguageModelError."""

Chosen = TypeVar("Chosen")
Value = TypeVar("Value")


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
    writers: Sequence[Writer] = (),
    judges: Sequence[FaithfulnessJudge] = (),
) -> AskResult:
    """The verdict on a question, with its evidence and the record of how it was reached.

    `judge` comes from `ragcli.gate.open_judge`. `retries` (0 to 2) is how often a question that fails is searched for
    with further words. `override` lets a question through that the gate would stop; the trace says so. `question` is
    what is judged where `request.text` is something else, such as a rewriting. `search` stands in for
    `searcher.query`, for query techniques (`ragcli.gate.rephrasing`). Once the gate is passed, and only then, the
    `writers` write an answer and the `judges` hold it against the hits: see `with_answer`.

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
    return with_answer(result, writers, judges) if writers else result


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
            degraded=chosen.degraded,
            warnings=tuple(dict.fromkeys(warning for each in tries for warning in each.result.warnings)),
        ),
        review=review,
    )


def with_answer(result: AskResult, writers: Sequence[Writer], judges: Sequence[FaithfulnessJudge] = ()) -> AskResult:
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
    answer = _first(lambda writer: writer(result), writers, warnings)
    stages.append(StageTime("answer", time.perf_counter() - started, answer.by if answer else "nothing to say"))
    faithfulness = None
    review = list(result.review)
    if answer is not None:
        review += _uncited(answer)
        if judges:
            started = time.perf_counter()
            faithfulness = _first(lambda judge: answer_faithfulness(answer, result.hits, judge), judges, warnings)
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


def _first(call: Callable[[Chosen], Value | None], choices: Sequence[Chosen], warnings: list[str]) -> Value | None:
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
