"""What holds for every test."""

from __future__ import annotations

import signal

# Started in the background by a shell, the tests would hand an ignored Ctrl-C on to every process they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
