"""Calling a program so that file permissions hold for it, also where the tests run as root."""

from __future__ import annotations

import ctypes
import os
import sys

import pytest

_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2


def without_privileges() -> None:
    """For `preexec_fn`: the program that is started may not pass over permissions; if it runs as root, Linux's root."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "a capability cannot be dropped")


needs_permissions = pytest.mark.skipif(
    not hasattr(os, "geteuid") or (os.geteuid() == 0 and sys.platform != "linux"),
    reason="needs permissions that hold for the user who runs the tests",
)
