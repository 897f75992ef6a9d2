"""Feeds ragcli's readers inputs that no one wrote, and keeps those that they can't stand.

    scripts/fuzz [--target html,pdf,…] [--seconds 600] [--out DIR] [--json]
    scripts/fuzz --target html --input FILE

Inputs are bred by atheris (libFuzzer): what reaches a path through the reader that nothing reached before is kept and
changed further. A finding is an exception that a reader may not raise, a document that breaks what every reader
promises (checks.py), an input that takes too long or two gigabytes, or a crash. Its shortest input is kept in
DIR/findings, with the traceback; DIR/corpus keeps what was bred, and the next run goes on from there. `--input` reads
one file as a target and shows what happens. Leaves with 1 when something was found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scripts.fuzzing.catalogue import CURRENT, TARGETS, Target

ROOT = Path(__file__).parents[2]
_MEMORY = 2048
_STUCK = 300
"""Seconds after which libFuzzer ends the process. It goes by the clock, which on a busy machine says little about an
input; the process itself goes by what it computed, and is stricter."""
_STATUS = re.compile(r"^#(\d+)\s.*?\bcov: (\d+)", re.MULTILINE)
_FINDING = re.compile(r"^FINDING (\S+)", re.MULTILINE)
_ARTIFACT = re.compile(r"Test unit written to (\S+)")
_FEWEST_SECONDS = 3
"""With less time left, another process isn't started: it would hardly have loaded the libraries."""


@dataclass(slots=True)
class Tally:
    """What a target's run came to. `paths` counts the branches reached, `first_paths` those that the seeds reach."""

    target: str
    seconds: float = 0.0
    executions: int = 0
    first_paths: int = 0
    paths: int = 0
    crashes: int = 0
    findings: list[str] = field(default_factory=list)


def main(arguments: list[str] | None = None) -> int:
    """Runs what the command line asks for; the exit code says whether something was found."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--target", default=",".join(TARGETS), help=f"some of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--seconds", type=int, default=600, help="for each target (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / ".fuzz", help="where inputs are kept (default: .fuzz)")
    parser.add_argument("--input", type=Path, help="read this file only, and show what happens")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    options = parser.parse_args(arguments)
    names = [name.strip() for name in options.target.split(",") if name.strip()]
    unknown = [name for name in names if name not in TARGETS]
    if unknown or not names:
        parser.error(f"there is no target {', '.join(unknown) or 'named'}; there are {', '.join(TARGETS)}")
    if options.input is not None:
        return show(names, options.input)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the child ends too
    tallies = [fuzz(TARGETS[name], options.seconds, options.out.absolute()) for name in names]
    print(json.dumps([asdict(tally) for tally in tallies], indent=2) if options.json else table(tallies))
    found = sum(len(tally.findings) for tally in tallies)
    if found:
        print(f"Findings are in {options.out.absolute() / 'findings'}.", file=sys.stderr)
    return 1 if found else 0


def show(names: list[str], file: Path) -> int:
    """Reads one file as each of the targets. What it raises is shown as Python shows it."""
    from scripts.fuzzing.targets import CHECKS

    data = file.read_bytes()
    for name in names:
        CHECKS[name](data)
        print(f"{file} as {name}: nothing wrong.")
    return 0


def fuzz(target: Target, seconds: int, out: Path) -> Tally:
    """Runs one target for so many seconds, in as many processes after one another as it takes."""
    from scripts.fuzzing.seeds import SEEDS

    corpus, findings = out / "corpus" / target.name, out / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    tally = Tally(target.name)
    shared = Path("/dev/shm")  # noqa: S108
    scratch = Path(tempfile.mkdtemp(prefix="ragcli-fuzz-", dir=shared if os.access(shared, os.W_OK) else None))
    seeds = scratch / "seeds"
    seeds.mkdir()
    for number, seed in enumerate(SEEDS[target.name]()):
        (seeds / f"{number:03}").write_bytes(seed)
    log, current = scratch / "log", scratch / CURRENT
    started = time.monotonic()
    try:
        while (left := seconds - (time.monotonic() - started)) > _FEWEST_SECONDS or not log.exists():
            current.unlink(missing_ok=True)
            code = _process(target, (corpus, seeds), findings, scratch, log, max(1, int(left)))
            told = log.read_text(encoding="utf-8", errors="replace")
            _count(tally, told)
            if code and not _ARTIFACT.search(told):
                if not current.exists():
                    raise SystemExit(f"{target.name} could not be started ({code}):\n{told[-2000:]}")
                # Ended from outside, as for want of memory: libFuzzer had no time to say at which input.
                tally.crashes += 1
                lost = f"{target.name}-lost-{_digest(current)}"
                shutil.copy(current, findings / lost)
                tally.findings.append(lost)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    tally.seconds = round(time.monotonic() - started, 1)
    tally.findings = sorted(set(tally.findings))
    return tally


def _digest(file: Path) -> str:
    return hashlib.blake2b(file.read_bytes(), digest_size=4).hexdigest()


def _process(target: Target, inputs: tuple[Path, Path], findings: Path, scratch: Path, log: Path, seconds: int) -> int:
    command = [
        *(sys.executable, "-m", "scripts.fuzzing.child", target.name, str(findings)),
        f"-max_total_time={seconds}",
        f"-max_len={target.longest}",
        f"-timeout={_STUCK}",
        f"-report_slow_units={_STUCK}",
        f"-rss_limit_mb={_MEMORY}",
        f"-artifact_prefix={findings / target.name}-",
        *map(str, inputs),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch), "PYTHONHASHSEED": "0"}
    with log.open("wb") as output:
        return subprocess.run(command, stdout=output, stderr=output, env=environment, check=False).returncode


def _count(tally: Tally, log: str) -> None:
    """Adds what one process did, as far as it told."""
    statuses = [(int(runs), int(paths)) for runs, paths in _STATUS.findall(log)]
    tally.executions += max((runs for runs, _ in statuses), default=0)
    tally.paths = max((paths for _, paths in statuses), default=tally.paths)
    tally.first_paths = tally.first_paths or next((paths for _, paths in statuses), 0)
    artifacts = [Path(name).name for name in _ARTIFACT.findall(log)]
    tally.crashes += len(artifacts)
    tally.findings += [*artifacts, *_FINDING.findall(log)]


def table(tallies: list[Tally]) -> str:
    """One line a target."""
    head = f"{'target':<12}{'seconds':>9}{'executions':>12}{'a second':>10}{'paths':>14}{'crashes':>9}{'findings':>10}"
    lines = [
        f"{tally.target:<12}{tally.seconds:>9.0f}{tally.executions:>12,}"
        f"{tally.executions / max(tally.seconds, 0.1):>10.0f}{f'{tally.first_paths}→{tally.paths}':>14}"
        f"{tally.crashes:>9}{len(tally.findings):>10}"
        for tally in tallies
    ]
    return "\n".join([head, *lines])


if __name__ == "__main__":
    sys.exit(main())
