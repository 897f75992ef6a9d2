"""The ONNX exports of the tests' models, made once a session and shared by all its processes.

An export is found by the hash of its weights, and whoever makes one holds a lock beside it, so that the processes of
one run can use one folder (`ragcli.models.onnx.onnx_export`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

SESSION = "RAGCLI_TEST_SESSION"
"""The variable of the environment that tells the run's processes where its folder is."""


def begin_session() -> None:
    """Make the run's folder, unless this is a process of a run that has one."""
    if SESSION not in os.environ:
        os.environ[SESSION] = tempfile.mkdtemp(prefix="ragcli-tests-")


def end_session() -> None:
    """Remove the run's folder. For the process that made it."""
    shutil.rmtree(os.environ.pop(SESSION), ignore_errors=True)


def with_shared_exports(cache: Path) -> Path:
    """The cache folder, made if need be, with the run's exports in the place of its own if it has none yet."""
    exports = Path(os.environ[SESSION]) / "onnx"
    exports.mkdir(mode=0o700, exist_ok=True)
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (cache / "onnx").exists():
        (cache / "onnx").symlink_to(exports)
    return cache
