"""Runs commands as a shell user does, each in a process of its own, and says what they cost.

Peak memory is what the kernel counts for the child. On Linux a child starts with the peak of the process that
started it, so nothing large may be imported here.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians over cold processes: wall and CPU seconds, and the greatest peak of resident memory in bytes."""

    seconds: float
    cpu_seconds: float
    peak: int
    runs: int


def cold(
    command: Sequence[str], times: int, env: Mapping[str, str] | None = None, *, accept: Sequence[int] = (0,)
) -> Cost:
    """Run a command so many times, after one run that warms the file cache and does not count.

    SystemExit when it leaves with a code that is not accepted.
    """
    seconds, cpu, peaks = [], [], []
    for turn in range(times + 1):
        code, wall, used, peak = _once(command, environment(env))
        if code not in accept:
            raise SystemExit(f"{' '.join(command)} left with code {code}")
        if turn:
            seconds.append(wall)
            cpu.append(used)
            peaks.append(peak)
    return Cost(statistics.median(seconds), statistics.median(cpu), max(peaks), times)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of what is measured.

    A user's Python keeps compiled modules; where that is switched off, every start would compile all of ragcli.
    """
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | dict(more or {})


def _once(command: Sequence[str], env: Mapping[str, str]) -> tuple[int, float, float, int]:
    nothing = os.open(os.devnull, os.O_RDWR)
    started = time.perf_counter()
    child = os.posix_spawnp(
        command[0], list(command), dict(env), file_actions=[(os.POSIX_SPAWN_DUP2, nothing, fd) for fd in (0, 1, 2)]
    )
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - started
    os.close(nothing)
    unit = 1 if sys.platform == "darwin" else 1024
    return os.waitstatus_to_exitcode(status), seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit


def ask(script: str, *arguments: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run one of the workers beside this file; the JSON object in its last line."""
    import subprocess

    command = [sys.executable, str(HERE / script), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment(env), check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} left with code {done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def machine() -> dict[str, str]:
    """What this was measured on."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        cpu = platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": str(cores),
        "cpu": cpu,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "load": f"{os.getloadavg()[0]:.1f}",
    }
