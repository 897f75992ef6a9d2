"""Killing the process at every call that changes a file, failing such calls, and looking at what is left.

Each scene is one command on a collection. It is run once for the states that it commits one after the other, and
once to count its calls; then once for each call, where it is killed before the call, or in the middle of it if it
is a write. What must hold afterwards: `verify` finds nothing; every search gives what it gave in one of the
committed states; the same command again comes to the end of its work, embeds exactly what was not committed, and
leaves no files behind that nobody needs. The same must hold where the disk is full from a call on, or where a call
fails once; then the command must also say so in a sentence, unless it could do its work all the same.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from scripts.torturing.children import CountingEncoder, command, in_child, in_children, read_here, value_of
from scripts.torturing.gate import Decision, Gate, Point, makes_name
from scripts.torturing.material import (
    NAME,
    State,
    committed_inputs,
    differences,
    lost_documents,
    state,
    strays,
    watch_commits,
)
from scripts.torturing.scenes import Scene

import ragcli.collection.ingestion.change_detection
import ragcli.collection.ingestion.document_ingester
import ragcli.collection.write.compaction
import ragcli.collection.write.embedding_batches
from ragcli.collection import list_collections

Fault = Literal["kill", "tear", "full", "fail"]
"""Killed before a call, or in the middle of a write; the disk full from a call on; a call that fails once."""

_LONG_AGO: Final = 7200


@dataclass(frozen=True, slots=True)
class Course:
    """How a scene goes when nothing is in its way: its states in order, what it embeds, the calls it makes."""

    states: list[State]
    inputs: set[str]
    points: list[Point]


@dataclass(frozen=True, slots=True)
class Job:
    """One fault at one call of a scene."""

    scene: Scene
    fault: Fault
    at: int


@dataclass
class Tally:
    """What came of the faults of one kind in one scene. `missed` are those whose call never came."""

    scene: str
    fault: str
    calls: int = 0
    tried: int = 0
    missed: int = 0
    documents_lost: int = 0
    wrong: list[str] = field(default_factory=list)
    bugs: list[str] = field(default_factory=list)


class Stage:
    """Where scenes are played: below `work`, with a model that is loaded already."""

    def __init__(self, work: Path, encoder: CountingEncoder) -> None:
        self.data = work / "now"
        self._encoder = encoder
        self._temporary = work / "tmp"
        self._temporary.mkdir(parents=True, exist_ok=True)
        self._courses: dict[str, Course] = {}

    def jobs(self, scenes: Sequence[Scene], faults: Sequence[Fault], most: int, seed: int) -> list[Job]:
        """So many faults at most, the same number for all scenes, and evenly over all calls of each."""
        left, found = most, list[Job]()
        for number, jobs in enumerate(sorted(self._all_jobs(scenes, faults), key=len)):
            # Small scenes get all of theirs, and what they don't need goes to the others.
            share = min(len(jobs), left // (len(scenes) - number))
            start = random.Random(seed).random()
            found += [jobs[int((place + start) * len(jobs) / share) % len(jobs)] for place in range(share)]
            left -= share
        return found

    def _all_jobs(self, scenes: Sequence[Scene], faults: Sequence[Fault]) -> Iterator[list[Job]]:
        for scene in scenes:
            yield [
                Job(scene, fault, at)
                for at, point in enumerate(self.course(scene).points, 1)
                for fault in faults
                if (fault != "tear" or point.tears) and (fault != "full" or point.grows)
            ]

    def course(self, scene: Scene) -> Course:
        """How the scene goes undisturbed."""
        if scene.name not in self._courses:
            self._reset(scene)
            states, inputs = value_of(in_child(lambda: self._watch(scene)))
            self._reset(scene)
            gate = Gate(str(self.data))
            done = value_of(in_child(lambda: self.act(scene), gate))
            if done["code"]:
                raise RuntimeError(f"{scene.name} fails undisturbed: {done['err']}")
            self._courses[scene.name] = Course(states, set(inputs), gate.points)
        return self._courses[scene.name]

    def play(self, jobs: Sequence[Job], told: Callable[[str], None]) -> list[Tally]:
        """Do all jobs; a tally for each scene and kind of fault."""
        tallies: dict[tuple[str, str], Tally] = {}
        for job in jobs:
            key = job.scene.name, job.fault
            tally = tallies.setdefault(key, Tally(*key, calls=len(self.course(job.scene).points)))
            problems = len(tally.wrong) + len(tally.bugs)
            self._play(job, tally)
            for problem in [*tally.wrong, *tally.bugs][problems:]:
                told(f"{job.scene.name}, {job.fault} at call {job.at}: {problem}")
        return list(tallies.values())

    def _play(self, job: Job, tally: Tally) -> None:
        scene, course = job.scene, self.course(job.scene)
        self._reset(scene)
        gate = Gate(str(self.data), _decider(job, str(self.data)))
        ending = in_child(lambda: self.act(scene), gate)
        tally.tried += 1
        if len(gate.points) < job.at:
            tally.missed += 1
        if ending.left:
            tally.wrong.append(f"{ending.left} processes were left running")
        if job.fault in ("kill", "tear"):
            if not ending.killed and (ending.failure or len(gate.points) >= job.at):
                tally.wrong.append(f"it was not killed but {ending.failure or 'came to its end'}")
        elif ending.failure:
            tally.bugs.append(f"the command {ending.failure}")
        elif ending.value["bug"]:
            tally.bugs.append(ending.value["err"])
        found = in_child(lambda: self.examine(scene))
        if found.failure:
            tally.bugs.append(f"the commands after it {found.failure}")
            return
        where = f" ({gate.points[job.at - 1]})" if len(gate.points) >= job.at else ""
        self.judge(scene, course, found.value, tally, where)
        told_done = job.fault in ("full", "fail") and not ending.failure and ending.value["code"] == 0
        if told_done and differences(found.value["found"], course.states[-1:]):
            tally.wrong.append(f"it said that all was done and it was not{where}")

    def judge(self, scene: Scene, course: Course, seen: dict[str, Any], tally: Tally, where: str) -> None:
        final = course.states[-1:]
        wrong: list[str] = []
        if not scene.damaged:
            if seen["problems"]:
                wrong.append(f"verify finds {seen['problems']}")
            if told := differences(seen["found"], course.states):
                wrong.append(f"there is {told}")
            tally.documents_lost += lost_documents(seen["found"], course.states)
            if seen["embedded"] != len(course.inputs - {*seen["committed"]}):
                needed = len(course.inputs - {*seen["committed"]})
                wrong.append(f"{seen['embedded']} chunks were embedded and {needed} were to be")
        if seen["again"]["code"] and not seen["was_done"]:
            wrong.append(f"the command fails when it is called again: {seen['again']['err']}")
        if seen["problems_after"]:
            wrong.append(f"verify finds {seen['problems_after']} after the command was called again")
        if told := differences(seen["final"], final):
            wrong.append(f"when the command was called again there is {told}")
        tally.documents_lost += lost_documents(seen["final"], final)
        if seen["strays"]:
            wrong.append(f"nobody needs {', '.join(seen['strays'])}")
        tally.wrong += [each + where for each in wrong]
        tally.bugs += [each + where for each in (*seen["found"]["bugs"], *seen["final"]["bugs"])]
        if seen["again"]["bug"]:
            tally.bugs.append(seen["again"]["err"] + where)

    def act(self, scene: Scene) -> dict[str, Any]:
        """The scene's command, in a child."""
        self._settle_in(scene)
        embedded = self._encoder.embedded
        answer = command(*scene.call)
        embedded = self._encoder.embedded - embedded
        return {"code": answer.code, "err": answer.err, "bug": answer.is_bug, "embedded": embedded}

    def _watch(self, scene: Scene) -> tuple[list[State], list[str]]:
        """The scene's states, in a child."""
        self._settle_in(scene)
        states = [state(self.data)]

        def observe() -> None:
            now = state(self.data)
            if now not in states:
                states.append(now)

        watch_commits(observe)
        command(*scene.call)
        final = state(self.data)
        if final in states:
            states.remove(final)
        return [*states, final], sorted(committed_inputs(self.data) if scene.embeds else ())

    def examine(self, scene: Scene) -> dict[str, Any]:
        """What is left of the collection after a fault, and what the command makes of it, in a child."""
        self._settle_in(scene)
        for entry in self.data.glob(".new-*"):
            # Half-made collections are left alone for a while, for somebody might be at it.
            os.utime(entry, times=(time.time() - _LONG_AGO,) * 2)
        seen: dict[str, Any] = {"problems": _problems(self.data), "found": state(self.data)}
        seen["committed"] = [] if scene.damaged else sorted(committed_inputs(self.data))
        there = NAME in list_collections(self.data)
        seen["was_done"] = there if scene.call[1] == "import" else scene.call[0] == "collections" and not there
        seen["again"] = self.act(scene)
        seen["embedded"] = seen["again"]["embedded"]
        seen |= {"problems_after": _problems(self.data), "final": state(self.data)}
        if scene.tidy:
            command(*scene.tidy)
        return seen | {"strays": strays(self.data)}

    def _settle_in(self, scene: Scene) -> None:
        os.environ.update(RAGCLI_DATA_DIR=str(self.data), TMPDIR=str(self._temporary))
        # What lies there was written long ago: an ingest looks at the times of such files and not into them.
        ragcli.collection.ingestion.change_detection._SETTLED_NS = -(10**15)  # type: ignore[misc]  # noqa: SLF001
        if not scene.readers:
            read_here()
        if scene.small:
            ragcli.collection.write.embedding_batches.EMBED_BATCH = 4  # type: ignore[misc]
            ragcli.collection.ingestion.document_ingester.COMMIT_CHUNKS = 4  # type: ignore[misc]
            ragcli.collection.ingestion.document_ingester.COMMIT_MIN_SECONDS = 0.0  # type: ignore[misc]
            ragcli.collection.write.compaction.DEAD_ROW_MIN = 5  # type: ignore[misc]

    def _reset(self, scene: Scene) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.copytree(scene.data, self.data)


def run(
    stage: Stage,
    scenes: Sequence[Scene],
    kills: int,
    faults: int,
    seed: int,
    processes: int,
    told: Callable[[str], None],
) -> list[dict[str, Any]]:
    """So many kills and other faults, in some processes at once; tallies by scene and kind of fault, as dicts."""
    jobs = stage.jobs(scenes, ("kill", "tear"), kills, seed) + stage.jobs(scenes, ("full", "fail"), faults, seed)
    folder = stage.data

    def part(number: int) -> list[dict[str, Any]]:
        stage.data = folder.with_name(f"now{number}")
        return [asdict(tally) for tally in stage.play(jobs[number::processes], told)]

    sums: dict[tuple[str, str], dict[str, Any]] = {}
    for counted in (tally for tallies in in_children(processes, part, 24 * 3600) for tally in tallies):
        key = counted["scene"], counted["fault"]
        mine = sums.setdefault(key, counted | {"tried": 0, "missed": 0, "documents_lost": 0, "wrong": [], "bugs": []})
        for name in ("tried", "missed", "documents_lost", "wrong", "bugs"):
            mine[name] += counted[name]
    return list(sums.values())


def _decider(job: Job, root: str) -> Callable[[int, Point], Decision]:
    def decide(number: int, point: Point) -> Decision:
        if job.fault == "full":
            is_late = number >= job.at and point.grows and makes_name(root, point)
            return errno.ENOSPC if is_late else "pass"
        if number != job.at:
            return "pass"
        return errno.EIO if job.fault == "fail" else job.fault

    return decide


def _problems(data: Path) -> list[str]:
    found: list[str] = []
    for name in list_collections(data):
        answer = command("collections", "verify", name, "--json")
        told = answer.json
        found += told[0]["problems"] if told else [f"{answer.code}: {answer.err}"]
    return found
