"""Torments ragcli at length, and says how often it failed to stand it.

    scripts/torture [--kills N] [--faults N] [--flips N] [--queries N] [--seed N] [--work DIR] [--json]

It makes its own collections, small ones, with a tiny model, and does four things to them. It kills commands at their
writes (`kills`), has writes fail as on a full or a broken disk (`kills` too), changes single bytes (`flips`), and
asks from many processes at once while the collection changes (`crowd`). What has to hold is said in those modules.
0 leaves a part out, and "all" does every kill or every fault there is. Leaves with 1 if anything was lost, wrong or
looked like a bug. The same seed
makes the same choices, as far as files have the same names.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

KILLS: Final = 400
FAULTS: Final = 160
FLIPS: Final = 5000
QUERIES: Final = 2400
_DISK: Final = 5
_DISKS: Final = 200
"""For so many failing writes, one disk that is full; and how many at most."""
_TOLD: Final = 20

Kind = Literal["kills", "faults", "flips", "queries"]


@dataclass
class Part:
    """One line of the table: how often something was tried, and what did not stand it."""

    kind: Kind
    name: str
    tried: int
    note: str
    documents_lost: int = 0
    wrong: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Is nothing wrong?"""
        return not (self.documents_lost or self.wrong or self.tracebacks)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what was asked for; 0 if all of it held."""
    asked = _parser().parse_args(arguments)
    # Before numpy is imported, which everything below does.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    os.environ.pop("RAGCLI_CONFIG", None)
    here = Path(asked.work).absolute() if asked.work else None
    if here is not None:
        here.mkdir(parents=True, exist_ok=True)
    # In memory where there is such a place: what is tested is what processes leave, not what disks keep.
    fast = "/dev/shm" if here is None and os.access("/dev/shm", os.W_OK) else None  # noqa: S108
    work = Path(tempfile.mkdtemp(prefix="ragcli-torture-", dir=here or fast))
    started = time.monotonic()
    try:
        parts, skipped = _parts(asked, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    seconds = time.monotonic() - started
    if asked.json:
        told = {"parts": [asdict(part) for part in parts], "skipped": skipped, "seconds": round(seconds, 1)}
        print(json.dumps(told, indent=2))
    else:
        print(_table(parts, seconds))
    return 0 if all(part.holds for part in parts) else 1


def _parser() -> argparse.ArgumentParser:
    told = __doc__ or ""
    parser = argparse.ArgumentParser(
        prog="scripts/torture", description=told, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=_number, default=KILLS, metavar="N", help=f"kills at writes ({KILLS}; or all)")
    parser.add_argument(
        "--faults", type=_number, default=FAULTS, metavar="N", help=f"failing writes ({FAULTS}; or all)"
    )
    parser.add_argument("--flips", type=int, default=FLIPS, metavar="N", help=f"bytes changed ({FLIPS})")
    parser.add_argument("--queries", type=int, default=QUERIES, metavar="N", help=f"questions in the crowd ({QUERIES})")
    parser.add_argument("--scenes", default="", metavar="NAME,…", help="only these scenes for kills and faults")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which kills and which bytes (0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="how many at once")
    parser.add_argument("--work", metavar="DIR", help="where to make the collections (in memory)")
    parser.add_argument("--json", action="store_true", help="print the whole of what was found")
    return parser


def _number(text: str) -> int:
    return sys.maxsize if text == "all" else int(text)


def _parts(asked: argparse.Namespace, work: Path) -> tuple[list[Part], str | None]:
    """All parts that were asked for, and why there are no kills where they cannot be had."""
    from scripts.torturing.children import warm_up
    from scripts.torturing.gate import missing
    from tests.support.tiny_models import tiny_encoder

    os.environ.update(RAGCLI_CACHE_DIR=str(work / "cache"), TMPDIR=str(work))
    tempfile.tempdir = None
    model = tiny_encoder(work / "model")
    encoder = warm_up(str(model))
    parts: list[Part] = []
    skipped = None
    if asked.kills or asked.faults:
        skipped = missing()
        if skipped is None:
            parts += _kills(asked, work, model, encoder)
        else:
            _tell(f"No kills and no failing writes: {skipped}.")
    if asked.flips:
        parts.append(_flips(asked, work, model, encoder))
    if asked.queries:
        parts.append(_crowd(asked, work, model))
    return parts, skipped


def _kills(asked: argparse.Namespace, work: Path, model: Path, encoder: Any) -> list[Part]:
    from scripts.torturing import disks, kills
    from scripts.torturing.scenes import Workshop

    makers = Workshop(work / "scenes", model).scenes()
    names = [name for name in asked.scenes.split(",") if name] or list(makers)
    if unknown := [name for name in names if name not in makers]:
        raise SystemExit(f"There is no scene {', '.join(unknown)}; there are {', '.join(makers)}.")
    chosen = [makers[name]() for name in names]
    stage = kills.Stage(work / "kills", encoder)
    done = kills.run(stage, chosen, asked.kills, asked.faults, asked.seed, asked.processes, _tell)
    if asked.faults >= _DISK and disks.missing() is None:
        done += [asdict(tally) for tally in disks.run(stage, chosen, min(asked.faults // _DISK, _DISKS))]
    parts: list[Part] = []
    rows: tuple[tuple[Kind, str, tuple[str, ...]], ...] = (
        ("kills", "killed", ("kill", "tear")),
        ("faults", "writes failed", ("full", "fail")),
        ("faults", "small disk", ("disk",)),
    )
    for kind, name, faults in rows:
        of_kind = [each for each in done if each["fault"] in faults]
        for scene in dict.fromkeys(each["scene"] for each in of_kind):
            mine = [each for each in of_kind if each["scene"] == scene]
            late = sum(each["missed"] for each in mine)
            note = f"{mine[0]['calls']:,} calls change a file" + (
                f"; {late} times it came to none so late" if late else ""
            )
            parts.append(
                Part(
                    kind,
                    f"{name}: {scene}",
                    sum(each["tried"] for each in mine),
                    note,
                    sum(each["documents_lost"] for each in mine),
                    [problem for each in mine for problem in each["wrong"]],
                    [problem for each in mine for problem in each["bugs"]],
                )
            )
    return parts


def _flips(asked: argparse.Namespace, work: Path, model: Path, encoder: Any) -> Part:
    from scripts.torturing import flips

    done = flips.run(work, model, encoder, asked.flips, asked.seed, asked.processes)
    note = (
        f"{done.harmless:,} harmless, {done.named:,} named by verify ({done.refused:,} of them refused by a search);"
        f" {done.repaired:,} repaired"
    )
    wrong = [*done.silent, *done.wrong, *done.unrepaired]
    return Part("flips", "bytes changed", sum(done.tried.values()), note, 0, wrong, done.bugs)


def _crowd(asked: argparse.Namespace, work: Path, model: Path) -> Part:
    from scripts.torturing import crowd

    done = crowd.run(work, model, asked.queries)
    note = f"by {crowd.READERS} processes and {done.cold} new ones, over {done.states} states in {done.rounds} rounds"
    return Part(
        "queries",
        "questions beside a writer",
        done.queries,
        note,
        0,
        [*done.errors, *done.mixed, *done.wrong],
        done.bugs,
    )


def _table(parts: Sequence[Part], seconds: float) -> str:
    heads = ("", "tried", "lost", "wrong", "tracebacks", "")
    rows = [
        (
            part.name,
            f"{part.tried:,}",
            str(part.documents_lost),
            str(len(part.wrong)),
            str(len(part.tracebacks)),
            part.note,
        )
        for part in parts
    ]
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    lines = [
        "  ".join(
            cell.rjust(width) if 0 < at < 5 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [heads, *rows]
    ]
    for part in parts:
        lines += [f"{part.name}: {_shortened(told)}" for told in [*part.wrong, *part.tracebacks][:_TOLD]]
    counts = {kind: sum(part.tried for part in parts if part.kind == kind) for kind in get_args(Kind)}
    lines.append(
        f"In {seconds:.0f} s: kill points {counts['kills']:,}, failed writes {counts['faults']:,}, byte flips"
        f" {counts['flips']:,}, concurrent queries {counts['queries']:,}; documents lost"
        f" {sum(part.documents_lost for part in parts)}, wrong {sum(len(part.wrong) for part in parts)}, tracebacks"
        f" {sum(len(part.tracebacks) for part in parts)}"
    )
    return "\n".join(line.rstrip() for line in lines)


def _shortened(text: str) -> str:
    """Begin and end of a long text, which is where a traceback says what it is about."""
    return text if len(text) <= 900 else f"{text[:300]} … {text[-600:]}"


def _tell(text: str) -> None:
    sys.stderr.write(f"{_shortened(text)}\n")


if __name__ == "__main__":
    sys.exit(main())
