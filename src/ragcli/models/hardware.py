"""Detect processor cores, processor features and a GPU without heavy imports."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def worker_count() -> int:
    """How many threads to compute with: physical cores this process may use.

    Two hyperthreads share one core's multipliers, so a second one adds nothing to matrix products. A container's
    processor quota and OMP_NUM_THREADS, which users know from other numeric programs, both lower the number.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return max(1, min(_physical_cores(), _quota()))


def _physical_cores() -> int:
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    cores = set()
    for number in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
        try:
            cores.add(siblings.read_text(encoding="ascii").strip())
        except (OSError, UnicodeDecodeError):
            return len(allowed)
    return len(cores) or 1


def _quota() -> int:
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, -(-int(limit) // int(period)))
    except (OSError, ValueError):
        return sys.maxsize


def processor_kind() -> str:
    """The architecture, with "-vnni" where x86 has it: what decides how an int8 model must be quantised.

    Homes shared by unlike machines exist; each kind keeps its own export. Where the features of an x86 processor
    cannot be read (they are read from /proc/cpuinfo), it counts as one without VNNI.
    """
    machine = platform.machine().lower() or "unknown"
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as lines:
            flags = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return machine
    return f"{machine}-vnni" if "vnni" in flags else machine


def saturates_int8() -> bool:
    """Whether sums of 8-bit products overflow on this processor, so that int8 weights need the reduced range.

    x86 without VNNI multiplies unsigned by signed bytes with VPMADDUBSW, which adds two neighbouring products in 16
    bits and saturates (ONNX Runtime's documentation, "Quantize ONNX models", on U8S8 and `reduce_range`).
    """
    return processor_kind() in {"x86_64", "amd64", "x86", "i386", "i686"}


def has_gpu() -> bool:
    """Whether PyTorch could compute on a GPU here. torch is imported only where a device file says it may."""
    if sys.platform == "darwin":
        return platform.machine() == "arm64"
    if not any(Path(device).exists() for device in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd", "/dev/dxg")):
        return False
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())
