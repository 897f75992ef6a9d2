"""What holds for every test."""

from __future__ import annotations

import os
import signal

import pytest
from tests.support.model_cache import begin_session, end_session

# Started in the background by a shell, the tests would hand an ignored Ctrl-C on to every process they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Before the processes start that share the work."""
    begin_session()


def pytest_unconfigure(config: pytest.Config) -> None:
    """When the last of them is over."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        end_session()
