#!/usr/bin/env python3
"""Write down which versions of which libraries scripts/test installs, each with the hashes of its archives.

    python scripts/lock.py

asks the package index by way of uv (`pip install uv`) and writes two files beside this one: `requirements.lock` for
ragcli with its extras, and `audit.lock` for the program that looks for advisories. Run it when the dependencies in
pyproject.toml change, or to take newer versions in. The files hold for Linux and macOS, every supported Python, and
for any index that serves the same archives.

PyTorch is the exception. On Linux it comes in builds for the CPU and for several versions of CUDA, from indexes of
its own, under one version and with hashes of their own each; so there its version alone is fixed (`constraints.txt`),
and what only such builds bring along is left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent
LOCK, AUDIT_LOCK = SCRIPTS / "requirements.lock", SCRIPTS / "audit.lock"
EXTRAS = ("offline", "plot", "test", "ocr")
# Only with this extra, which the tests do without; pip passes over what asks for an extra.
ASIDE = "ocr"
# What builds an editable installation, as [build-system] in pyproject.toml asks for.
BUILD = "hatchling>=1.25\neditables\n"
OLDEST = "3.11"
OF_TORCH = re.compile(r"triton|nvidia-.*|cuda-.*")

_PYTHON = re.compile(r"py3|py2\.py3|cp3(1[1-9])|cp3\d+(?=-abi3)")
_PLATFORM = re.compile(r"any|(many)?linux.*_(x86_64|aarch64)|macosx_.*")


def usable(wheel: str) -> bool:
    """Is a wheel of that name for a system and a Python that ragcli runs on?"""
    _, python, abi, platforms = wheel.removesuffix(".whl").rsplit("-", 3)
    return (
        _PYTHON.match(f"{python}-{abi}") is not None
        and not abi.endswith("t")
        and any(_PLATFORM.fullmatch(each) for each in platforms.split("."))
    )


def lines_of(package: Mapping[str, Any], *, aside: bool = False) -> Iterator[str]:
    """One package as pip reads it: its version, where it is needed, and the hashes of the archives it may have."""
    marker = package.get("marker", "")
    marker = re.sub(rf"python_full_version >= '{OLDEST}'( and )?", "", marker)
    if package["name"] == "torch":
        marker = _both(marker, "sys_platform != 'linux'")
    if aside:
        marker = _both(marker, f"extra == '{ASIDE}'")
    archives = [each for each in package.get("wheels", ()) if usable(each["url"].rsplit("/", 1)[-1])]
    archives += [package["sdist"]] if "sdist" in package else []
    yield f"{package['name']}=={package['version']}" + (f" ; {marker}" if marker else "")
    yield from sorted(f"    --hash=sha256:{each['hashes']['sha256']}" for each in archives)


def _both(one: str, other: str) -> str:
    if not one:
        return other
    return f"({one}) and {other}" if " or " in one else f"{one} and {other}"


def resolved(*arguments: str, more: str = "") -> list[dict[str, Any]]:
    """What uv chooses, for every platform at once."""
    with tempfile.TemporaryDirectory() as folder:
        out, extra = Path(folder, "pylock.toml"), Path(folder, "more.in")
        extra.write_text(more, encoding="utf-8")
        command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST]
        command += ["--format", "pylock.toml", "--output-file", str(out), *arguments, str(extra)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        packages: list[dict[str, Any]] = tomllib.loads(out.read_text(encoding="utf-8"))["packages"]
    return [each for each in packages if each["name"] != "ragcli" and not OF_TORCH.fullmatch(each["name"])]


def text_of(packages: list[dict[str, Any]], aside: set[str], purpose: str) -> str:
    """The file."""
    blocks = [" \\\n".join(lines_of(each, aside=each["name"] in aside)) + "\n" for each in packages]
    return f"# {purpose} Written by scripts/lock.py; do not edit.\n\n" + "".join(blocks)


def main() -> None:
    """Write both files."""
    project = ["--constraint", str(SCRIPTS / "constraints.txt"), str(SCRIPTS.parent / "pyproject.toml")]
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    everything = resolved(*extras, *project, more=BUILD)
    versions = "".join(f"{each['name']}=={each['version']} ; {each['marker']}\n" for each in everything)
    with tempfile.TemporaryDirectory() as folder:
        same = Path(folder, "same.txt")
        same.write_text(versions, encoding="utf-8")
        extras = [word for extra in EXTRAS if extra != ASIDE for word in ("--extra", extra)]
        needed = resolved("--constraint", str(same), *extras, *project, more=BUILD)
    aside = {each["name"] for each in everything} - {each["name"] for each in needed}
    LOCK.write_text(text_of(everything, aside, "What scripts/test installs, and scripts/audit.py checks."), "utf-8")
    AUDIT_LOCK.write_text(text_of(resolved(more="pip-audit\n"), set(), "What scripts/audit.py installs."), "utf-8")


if __name__ == "__main__":
    try:
        main()
    except FileNotFoundError:
        sys.exit("scripts/lock.py needs uv: pip install uv")
    except subprocess.CalledProcessError as failed:
        sys.exit(failed.returncode)
