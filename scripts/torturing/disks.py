"""Small disks, really full: the commands of `kills` in file systems in memory that are too small for them.

Failing calls one by one shows more of ragcli; this shows that it is what happens on a full disk, also to the memory
that SQLite maps. Only root may mount such a disk, in a name space of its own, where nobody else sees it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from scripts.torturing.children import in_child
from scripts.torturing.kills import Stage, Tally
from scripts.torturing.material import differences
from scripts.torturing.scenes import Scene

SCENES: Final = ("create and ingest", "ingest and prune", "reindex", "repair")
_NEW_NAMES: Final = 0x20000
_PRIVATE: Final = 1 << 18 | 1 << 14
_REMOUNT: Final = 32
_AMPLE: Final = 64 << 20
_STEP: Final = 4096
_NEW: Final = 400_000
"""What a collection takes at first."""


def missing() -> str | None:
    """Why no small disk can be made here; None if it can."""
    if sys.platform != "linux":
        return "only Linux has file systems in memory for one process"
    ending = in_child(_leave_the_others)
    return None if ending.code == 0 else "only root may mount a small disk"


def run(stage: Stage, scenes: Sequence[Scene], most: int) -> list[Tally]:
    """So many disks at most, of all sizes from what the collection takes to what its command needs."""
    chosen = [scene for scene in scenes if scene.name in SCENES]
    return [_fill(stage, scene, most // len(chosen)) for scene in chosen]


def _fill(stage: Stage, scene: Scene, most: int) -> Tally:
    tally = Tally(scene.name, "disk", calls=len(stage.course(scene).points))
    least = _room(scene.data) + 8 * _STEP
    # A command may for a time need several times what is there; most ends come soon.
    for at in range(most):
        _try(stage, scene, least + int(3 * (least + _NEW) * (at / most) ** 2), tally)
    return tally


def _try(stage: Stage, scene: Scene, size: int, tally: Tally) -> None:
    course = stage.course(scene)
    ending = in_child(lambda: _on_a_small_disk(stage, scene, size))
    tally.tried += 1
    if ending.failure:
        tally.bugs.append(f"with {size:,} bytes it {ending.failure}")
        return
    acted, seen = ending.value
    where = f" (disk of {size:,} bytes)"
    if acted["failure"]:
        tally.bugs.append(f"the command {acted['failure']}{where}")
    elif acted["value"]["bug"]:
        tally.bugs.append(acted["value"]["err"] + where)
    elif acted["value"]["code"] == 0 and differences(seen["found"], course.states[-1:]):
        tally.wrong.append(f"it said that all was done and it was not{where}")
    tally.missed += not acted["failure"] and acted["value"]["code"] == 0
    stage.judge(scene, course, seen, tally, where)


def _on_a_small_disk(stage: Stage, scene: Scene, size: int) -> Any:
    """What the command did there, and what was left when there was room again."""
    stage.data.mkdir(exist_ok=True)
    _leave_the_others()
    _mount(stage.data, size, 0)
    shutil.copytree(scene.data, stage.data, dirs_exist_ok=True)
    acted = in_child(lambda: stage.act(scene))
    _mount(stage.data, _AMPLE, _REMOUNT)
    seen = in_child(lambda: stage.examine(scene))
    if seen.failure:
        raise RuntimeError(f"the commands after it {seen.failure}")
    return {"failure": acted.failure, "value": acted.value}, seen.value


def _leave_the_others() -> None:
    """Have mounts of one's own."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_NEW_NAMES) or library.mount(None, b"/", None, _PRIVATE, None):
        raise OSError(ctypes.get_errno(), "unshare")


def _mount(folder: Path, size: int, flags: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", flags, f"size={size}".encode()):
        raise OSError(ctypes.get_errno(), "mount")


def _room(folder: Path) -> int:
    """How much of a disk the files of a folder take."""
    sizes = [path.stat().st_size for path in folder.rglob("*")]
    return sum(-(-size // _STEP) * _STEP + _STEP for size in sizes)
