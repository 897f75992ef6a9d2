"""Stopping a process at any of its writes, by the kernel's own gate.

A filter (seccomp, with user notification) halts a process before every call that changes a file, and asks here what
is to become of it: let it through, fail it, or kill the process on the spot, before the call or in the middle of a
write. The kernel does the asking, so calls are seen whoever makes them: Python, SQLite, and the Rust below the
lexical index, which goes around the C library where it renames. What cannot be seen are writes to mapped memory; the
only one of these in a collection is SQLite's shared-memory file, which is made anew after a crash.

Linux from 5.9 on has this; `missing` says so where it is not to be had.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

_MACHINES: Final = {
    "x86_64": (
        0xC000003E,
        317,
        {
            "write": 1, "pwrite64": 18, "writev": 20, "pwritev": 296, "pwritev2": 328, "fsync": 74, "fdatasync": 75,
            "sync_file_range": 277, "truncate": 76, "ftruncate": 77, "fallocate": 285, "sendfile": 40,
            "copy_file_range": 326, "open": 2, "creat": 85, "openat": 257, "mkdir": 83, "mkdirat": 258, "rmdir": 84,
            "unlink": 87, "unlinkat": 263, "rename": 82, "renameat": 264, "renameat2": 316, "link": 86, "linkat": 265,
            "symlink": 88, "symlinkat": 266,
        },
    ),
    "aarch64": (
        0xC00000B7,
        277,
        {
            "write": 64, "pwrite64": 68, "writev": 66, "pwritev": 70, "pwritev2": 287, "fsync": 82, "fdatasync": 83,
            "sync_file_range": 84, "truncate": 45, "ftruncate": 46, "fallocate": 47, "sendfile": 71,
            "copy_file_range": 285, "openat": 56, "mkdirat": 34, "unlinkat": 35, "renameat": 38, "renameat2": 276,
            "linkat": 37, "symlinkat": 36,
        },
    ),
}  # fmt: skip

_WRITING: Final = frozenset(("write", "pwrite64", "writev", "pwritev", "pwritev2", "fallocate", "sendfile"))
_BY_DESCRIPTOR: Final = _WRITING | {"fsync", "fdatasync", "sync_file_range", "ftruncate"}
_AT: Final = {"openat": 0, "mkdirat": 0, "unlinkat": 0, "renameat": 2, "renameat2": 2, "linkat": 2, "symlinkat": 1}
"""For calls with a folder's descriptor: where it stands. The path it is for comes right after."""
_SECOND: Final = frozenset(("rename", "link", "symlink"))
"""Of these the second path is the new name, by which the call is known here."""
_NAMING: Final = frozenset(("open", "creat", "openat", "mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat"))
_GROWING: Final = _WRITING | _NAMING | {"copy_file_range"}
_CREATING: Final = os.O_CREAT | os.O_TRUNC

_RECEIVE: Final = 0xC0502100
_ANSWER: Final = 0xC0182101
_NOTE: Final = struct.Struct("=QIIiIQ6Q")
_REPLY: Final = struct.Struct("=QqiI")
_GO_ON: Final = 1

Decision = Literal["pass", "kill", "tear"] | int
"""What becomes of a call: it goes through, the process is killed before it or after half of it, or an error number."""


@dataclass(frozen=True, slots=True)
class Point:
    """One call that changes a file below the watched folder; `size` is in bytes, 0 but for writes."""

    call: str
    path: str
    size: int

    @property
    def tears(self) -> bool:
        """Can it be done by half?"""
        return self.call in ("write", "pwrite64") and self.size > 1

    @property
    def grows(self) -> bool:
        """Does it need room on the disk?"""
        return self.call in _GROWING


@dataclass
class Gate:
    """Watches what a process does below `root`. `decide` is asked about each point, with its number from 1."""

    root: str
    decide: Callable[[int, Point], Decision] = lambda _number, _point: "pass"
    points: list[Point] = field(default_factory=list)

    def serve(self, listener: int, process: int) -> tuple[int, int]:
        """Answer until the process has ended; its exit code (minus the signal), and how many it left behind."""
        watch = select.poll()
        handle = os.pidfd_open(process)
        watch.register(listener, select.POLLIN)
        watch.register(handle, select.POLLIN)
        try:
            while True:
                ready = dict(watch.poll())
                if ready.get(listener, 0) & select.POLLIN:
                    self._answer(listener, process)
                elif handle in ready:
                    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                    return code, self._wait_for_others(listener, process)
        finally:
            os.close(handle)

    def _wait_for_others(self, listener: int, group: int) -> int:
        """What the process had started must end by itself when it has gone; how many did not in two seconds."""
        watch = select.poll()
        watch.register(listener, select.POLLIN)
        deadline = time.monotonic() + 2
        while members(group):
            if time.monotonic() > deadline:
                left = members(group)
                with suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)
                return left
            if any(event & select.POLLIN for _, event in watch.poll(20)):
                self._answer(listener, None)
        return 0

    def _answer(self, listener: int, process: int | None) -> None:
        note = bytearray(_NOTE.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, note)
        except OSError:  # it was killed while it waited
            return
        identity, thread, _, number, _, _, *arguments = _NOTE.unpack(note)
        error, flags = 0, _GO_ON
        try:
            point = self._point(thread, number, arguments)
        except OSError:
            point = None
        if point is not None:
            self.points.append(point)
            decision = self.decide(len(self.points), point)
            if decision == "kill" or (decision == "tear" and process is not None):
                if decision == "tear":
                    _half_write(thread, point, arguments)
                if process is not None:
                    os.kill(process, signal.SIGKILL)
                return
            if isinstance(decision, int):
                error, flags = -decision, 0
        with suppress(OSError):
            fcntl.ioctl(listener, _ANSWER, _REPLY.pack(identity, 0, error, flags))

    def _point(self, thread: int, number: int, arguments: list[int]) -> Point | None:
        call = _names()[number]
        if call in _BY_DESCRIPTOR or call == "copy_file_range":
            place = 2 if call == "copy_file_range" else 0
            path = str(Path(f"/proc/{thread}/fd/{arguments[place]}").readlink())
        else:
            place = _AT.get(call, -1)
            at = place + 1 if place >= 0 else int(call in _SECOND)
            path = os.fsdecode(_text(thread, arguments[at]))
            if not path.startswith("/"):
                descriptor = ctypes.c_int(arguments[place]).value if place >= 0 else -100
                folder = f"/proc/{thread}/cwd" if descriptor == -100 else f"/proc/{thread}/fd/{descriptor}"
                path = str(Path(folder).readlink() / path)
        if path != self.root and not path.startswith(self.root + "/"):
            return None
        size = arguments[2] if call in ("write", "pwrite64") else 0
        return Point(call, path[len(self.root) + 1 :], size)


def makes_name(root: str, point: Point) -> bool:
    """False for opening a file that is there already, which goes well on a full disk too."""
    return not (point.call in ("open", "openat", "creat") and os.path.lexists(f"{root}/{point.path}"))


def members(group: int) -> int:
    """How many processes of a group are still there, those that ended and nobody asked after left out."""
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            count += words[0] not in "ZX" and int(words[2]) == group
    return count


def close_gate(channel: socket.socket) -> None:
    """In the process that is to be watched, and before it starts a thread: from here on it is. Sends the listener."""
    architecture, seccomp, numbers = _MACHINES[platform.machine()]
    opening = {numbers[call]: at for call, at in (("open", 1), ("openat", 2)) if call in numbers}
    plain = [number for call, number in numbers.items() if number not in opening]
    program = _program(architecture, plain, opening)
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(program)
    described = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer)))
    if library.prctl(38, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    set_filter, with_listener = 1, 8
    listener = library.syscall(seccomp, set_filter, with_listener, described)
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    socket.send_fds(channel, [b"."], [listener])
    os.close(listener)


def missing() -> str | None:
    """Why processes cannot be stopped at their writes on this machine; None if they can."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return f"only Linux on x86-64 or ARM lets a process be stopped at its writes, and this is {sys.platform}"
    here, there = socket.socketpair()
    with here, there:
        child = os.fork()
        if child == 0:
            try:
                close_gate(there)
            except BaseException as error:
                os._exit(getattr(error, "errno", None) or errno.EINVAL)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if code == 0 else f"the kernel refuses the filter ({os.strerror(code)})"


def _program(architecture: int, plain: list[int], opening: dict[int, int]) -> bytes:
    """Ask about these calls, and about opening files where one may be made or cut; let all others through."""
    load, equal, bits, back = 0x20, 0x15, 0x45, 0x06
    lines: list[tuple[int, int | str, int | str, int]] = [
        (load, 0, 0, 4),
        (equal, 0, "pass", architecture),
        (load, 0, 0, 0),
        *((equal, "ask", 0, number) for number in plain),
        *((equal, f"open{at}", 0, number) for number, at in opening.items()),
        (back, 0, 0, 0x7FFF0000),
    ]
    marks = {"pass": len(lines) - 1}
    for at in opening.values():
        marks[f"open{at}"] = len(lines)
        lines += [(load, 0, 0, 16 + 8 * at), (bits, "ask", "pass2", _CREATING)]
    marks["ask"] = len(lines)
    lines.append((back, 0, 0, 0x7FC00000))
    marks["pass2"] = len(lines)
    lines.append((back, 0, 0, 0x7FFF0000))
    return b"".join(
        struct.pack("@HBBI", code, *(marks[to] - at - 1 if isinstance(to, str) else to for to in (yes, no)), value)
        for at, (code, yes, no, value) in enumerate(lines)
    )


def _names() -> dict[int, str]:
    return {number: call for call, number in _MACHINES[platform.machine()][2].items()}


def _text(thread: int, address: int) -> bytes:
    """A path out of another process's memory."""
    found = b""
    with Path(f"/proc/{thread}/mem").open("rb", buffering=0) as memory:
        while b"\0" not in found and len(found) < 4096:
            memory.seek(address + len(found))
            # Not across the end of a page, behind which there may be nothing.
            found += memory.read(4096 - (address + len(found)) % 4096)
    return found.partition(b"\0")[0]


def _half_write(thread: int, point: Point, arguments: list[int]) -> None:
    """Do the first half of another process's write for it."""
    if not point.tears:
        return
    descriptor, address, size, offset = arguments[:4]
    with Path(f"/proc/{thread}/mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        data = memory.read(size // 2)
    if point.call == "write":
        offset = int(Path(f"/proc/{thread}/fdinfo/{descriptor}").read_text("ascii").split()[1])
    # Opened a second time, so a plain write would not move the place where the process goes on.
    file = os.open(f"/proc/{thread}/fd/{descriptor}", os.O_WRONLY)
    try:
        os.pwrite(file, data, offset)
    finally:
        os.close(file)
