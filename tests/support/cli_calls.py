"""Calls of ragcli within this process, which cost milliseconds, for a user who configured nothing."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.model_cache import with_shared_exports

from ragcli.__main__ import main


@dataclass(frozen=True)
class Called:
    """What a call gave."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """All that was written, the data first."""
        return self.out + self.err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Ragcli = Callable[..., Called]


def caller(
    data: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    cache: Path | None = None,
) -> Ragcli:
    """A function that calls ragcli from `home`, on the collections in `data`, with a cache beside them or as given."""
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(data))
    monkeypatch.setenv("RAGCLI_CACHE_DIR", str(with_shared_exports(cache or data.parent / "cache")))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def call(*arguments: str, stdin: bytes = b"") -> Called:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        code = main(list(arguments))
        captured = capsys.readouterr()
        return Called(code, captured.out, captured.err)

    return call


def called(*arguments: str, stdin: str = "") -> Called:
    """Call ragcli as things are; without pytest's own capturing, so that a fixture of a module can."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        patch.setattr(sys, "stdout", io.TextIOWrapper(raw := io.BytesIO(), encoding="utf-8", write_through=True))
        patch.setattr(sys, "stderr", err)
        try:
            code = main(list(arguments))
        except SystemExit as end:  # so completion ends
            code = int(end.code or 0)
        out.write(raw.getvalue().decode("utf-8", "replace"))
    return Called(code, out.getvalue(), err.getvalue())
