"""Run the loop's role calls and retrievals, in threads or in an event loop."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeVar

from ragcli.agent.data_model import LowLevelQuery, Result
from ragcli.agent.roles import checked_results
from ragcli.errors import CollectionError, LanguageModelError, ModelUnavailable

Done = TypeVar("Done")

# What a source may fail by without being wrong in itself. One that is down must not cost the others.
SOURCE_ERRORS = (CollectionError, ModelUnavailable, LanguageModelError, OSError)


@dataclass(frozen=True, slots=True)
class RoleCall:
    """One role's work."""

    role: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RetrievalJob:
    """One query to be put to one source; `retriever` is asked for when the job runs, as it may have to be opened."""

    query: LowLevelQuery
    retriever: Callable[[], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class RetrievalOutcome:
    """What came of a job. `error` is one of FAILURES."""

    hits: tuple[Result, ...]
    seconds: float
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class RetrievalBatch:
    """Several jobs that don't depend on each other. Answered by as many outcomes."""

    jobs: tuple[RetrievalJob, ...]


LoopRequest = RoleCall | RetrievalBatch
LoopGenerator = Generator[LoopRequest, Any, Done]


def run_loop(steps: LoopGenerator[Done], concurrency: int) -> Done:
    """Carry out the steps in this thread; of one fetch, so many jobs at once."""

    def perform(step: LoopRequest) -> Any:
        if isinstance(step, RoleCall):
            return _finished(step.role(*step.arguments, **step.keywords))
        if concurrency == 1 or len(step.jobs) == 1:
            return [_timed_outcome(job, time.perf_counter(), partial(_run_job, job)) for job in step.jobs]
        return _run(partial(_run_batch, step.jobs, concurrency))

    answer, error = None, None
    while True:
        try:
            step = steps.throw(error) if error is not None else steps.send(answer)
        except StopIteration as end:
            done: Done = end.value
            return done
        answer, error = None, None
        try:
            answer = perform(step)
        except Exception as raised:  # the loop decides which of them it can do without
            error = raised


async def run_loop_async(steps: LoopGenerator[Done], concurrency: int) -> Done:
    """Carry out the steps from an event loop, on any backend that anyio knows."""
    answer, error = None, None
    while True:
        try:
            step = steps.throw(error) if error is not None else steps.send(answer)
        except StopIteration as end:
            done: Done = end.value
            return done
        answer, error = None, None
        try:
            if isinstance(step, RoleCall):
                answer = await _awaited(partial(step.role, *step.arguments, **step.keywords), step.role)
            else:
                answer = await _run_batch(step.jobs, concurrency)
        except Exception as raised:
            error = raised


async def _run_batch(jobs: Sequence[RetrievalJob], concurrency: int) -> list[RetrievalOutcome]:
    import anyio

    room = anyio.CapacityLimiter(concurrency)
    outcomes: dict[int, RetrievalOutcome] = {}
    unexpected: list[Exception] = []

    async def one(place: int, job: RetrievalJob) -> None:
        async with room:
            started = time.perf_counter()
            try:
                value = await _awaited(partial(_start_job, job), None)
                outcomes[place] = _timed_outcome(job, started, lambda: value)
            except SOURCE_ERRORS as error:
                outcomes[place] = RetrievalOutcome((), time.perf_counter() - started, error)
            except Exception as error:
                # Told by itself, as it would be without an event loop, and not in a group.
                unexpected.append(error)
                group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for place, job in enumerate(jobs):
            group.start_soon(one, place, job)
    if unexpected:
        raise unexpected[0]
    return [outcomes[place] for place in range(len(jobs))]


async def _awaited(call: Callable[[], Any], role: Callable[..., Any] | None) -> Any:
    """What the call gives in the end. It runs in a thread, unless it is known to give something to await."""
    if role is not None and (iscoroutinefunction(role) or iscoroutinefunction(getattr(role, "__call__", None))):  # noqa: B004
        return await call()
    from anyio import to_thread

    # Whoever cancels the run need not wait for a model or a source that hangs.
    value = await to_thread.run_sync(call, abandon_on_cancel=True)
    return await value if isawaitable(value) else value


def _start_job(job: RetrievalJob) -> Any:
    return job.retriever()(job.query.query, **job.query.params)


def _run_job(job: RetrievalJob) -> Any:
    return _finished(_start_job(job))


def _timed_outcome(job: RetrievalJob, started: float, given: Callable[[], Any]) -> RetrievalOutcome:
    try:
        hits = checked_results(f"The retriever of the source '{job.query.source}'", given())
    except SOURCE_ERRORS as error:
        return RetrievalOutcome((), time.perf_counter() - started, error)
    return RetrievalOutcome(tuple(hits), time.perf_counter() - started)


def _finished(value: Any) -> Any:
    """The value, or what it comes to if it has to be awaited."""
    if not isawaitable(value):
        return value

    async def wait() -> Any:
        return await value

    return _run(wait)


def _run(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run to its end what needs an event loop: in this thread, or in another where this one has a loop running."""
    import anyio
    from anyio import lowlevel

    try:
        lowlevel.current_token()
    except RuntimeError:
        return anyio.run(work)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as other:
        return other.submit(anyio.run, work).result()
