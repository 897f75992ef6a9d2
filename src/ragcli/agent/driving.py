"""Who carries out what the loop asks for: the caller's own thread, or an event loop.

The loop itself is a generator that yields what it wants done, so it exists once. Driven from ordinary code, roles
run in the caller's thread, one after another, and only retrievals go to threads, when there are several; driven
from an event loop, nothing blocks it. Either way the results come back in the order they were asked for, whatever
finished first, so a run can be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeVar

from ragcli.agent.checks import results_of
from ragcli.agent.values import LowLevelQuery, Result
from ragcli.errors import CollectionError, LanguageModelError, ModelUnavailable

Done = TypeVar("Done")

# What a source may fail by without being wrong in itself. One that is down must not cost the others.
FAILURES = (CollectionError, ModelUnavailable, LanguageModelError, OSError)


@dataclass(frozen=True, slots=True)
class Call:
    """One role's work."""

    role: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """One query to be put to one source; `retriever` is asked for when the job runs, as it may have to be opened."""

    query: LowLevelQuery
    retriever: Callable[[], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a job. `error` is one of FAILURES."""

    hits: tuple[Result, ...]
    seconds: float
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Fetch:
    """Several jobs that don't depend on each other. Answered by as many outcomes."""

    jobs: tuple[Job, ...]


Step = Call | Fetch
Steps = Generator[Step, Any, Done]


def drive(steps: Steps[Done], concurrency: int) -> Done:
    """Carry out the steps in this thread; of one fetch, so many jobs at once."""

    def perform(step: Step) -> Any:
        if isinstance(step, Call):
            return _finished(step.role(*step.arguments, **step.keywords))
        if concurrency == 1 or len(step.jobs) == 1:
            return [_settle(job, time.perf_counter(), partial(_perform, job)) for job in step.jobs]
        return _run(partial(_fetch, step.jobs, concurrency))

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


async def drive_async(steps: Steps[Done], concurrency: int) -> Done:
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
            if isinstance(step, Call):
                answer = await _awaited(partial(step.role, *step.arguments, **step.keywords), step.role)
            else:
                answer = await _fetch(step.jobs, concurrency)
        except Exception as raised:
            error = raised


async def _fetch(jobs: Sequence[Job], concurrency: int) -> list[Outcome]:
    import anyio

    room = anyio.CapacityLimiter(concurrency)
    outcomes: dict[int, Outcome] = {}
    unexpected: list[Exception] = []

    async def one(place: int, job: Job) -> None:
        async with room:
            started = time.perf_counter()
            try:
                value = await _awaited(partial(_start, job), None)
                outcomes[place] = _settle(job, started, lambda: value)
            except FAILURES as error:
                outcomes[place] = Outcome((), time.perf_counter() - started, error)
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


def _start(job: Job) -> Any:
    return job.retriever()(job.query.query, **job.query.params)


def _perform(job: Job) -> Any:
    return _finished(_start(job))


def _settle(job: Job, started: float, given: Callable[[], Any]) -> Outcome:
    try:
        hits = results_of(f"The retriever of the source '{job.query.source}'", given())
    except FAILURES as error:
        return Outcome((), time.perf_counter() - started, error)
    return Outcome(tuple(hits), time.perf_counter() - started)


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
