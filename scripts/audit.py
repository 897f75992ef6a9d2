#!/usr/bin/env python3
"""Are the libraries that are installed the ones that were meant, and is anything known against them?

    .venv/bin/python scripts/audit.py

First, always: every library of this environment is in `requirements.lock` in that version, and each of its files is
what its installer recorded. That the archives were those of the lock pip has checked when scripts/test installed them.
PyTorch, which on Linux comes in builds that the lock cannot know, is held to its version and to its record alone.

Then, if it can be had: pip-audit asks for advisories about all of the lock, the extras included. Whether a service
answers is tried with one library first, for pip-audit takes a library that its service does not know for a harmless
one. Where none answers, that is said, and the first part stands alone. Ids in `accepted-advisories.txt`, one a line
with the reason after it, are passed over.

Exits 1 if a library is not as it should be, or an advisory is not accepted.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent
LOCK, AUDIT_LOCK = SCRIPTS / "requirements.lock", SCRIPTS / "audit.lock"
CONSTRAINTS, ACCEPTED = SCRIPTS / "constraints.txt", SCRIPTS / "accepted-advisories.txt"
# ragcli itself, and what every new environment has.
OURS = {"ragcli", "pip"}
OF_TORCH = re.compile(r"triton|nvidia-.*|cuda-.*")
SERVICES = ("pypi", "osv")
SECONDS = 25
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)


def name_of(text: str) -> str:
    """A library's name in the form that indexes compare."""
    return re.sub(r"[-_.]+", "-", text).lower()


def pins(text: str) -> dict[str, set[str]]:
    """The versions that a lock or a constraints file has of each library."""
    found: dict[str, set[str]] = {}
    for name, version in _PIN.findall(text):
        found.setdefault(name_of(name), set()).add(version)
    return found


def not_as_locked(installed: Iterable[Distribution], locked: Mapping[str, set[str]]) -> Iterator[str]:
    """What is installed and not meant to be, or in another version."""
    for each in installed:
        name = name_of(each.metadata["Name"])
        if name in OURS or OF_TORCH.fullmatch(name):
            continue
        # A build of PyTorch says what it is for behind its version: 2.13.0+cpu.
        version = each.version.partition("+")[0] if name == "torch" else each.version
        if name not in locked:
            yield f"{name} {each.version} is installed and not in the lock."
        elif version not in locked[name]:
            yield f"{name} is installed in version {each.version}; the lock has {' or '.join(sorted(locked[name]))}."


def not_as_recorded(each: Distribution) -> Iterator[str]:
    """The files of a library that are not what its installer wrote down."""
    for file in each.files or ():
        if file.hash is None:
            continue
        path = Path(str(file.locate()))
        try:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, file.hash.mode).digest()
        except OSError:
            yield f"{path} of {each.metadata['Name']} cannot be read."
            continue
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            yield f"{path} is not as {each.metadata['Name']} {each.version} was installed."


def advisories(report: str) -> tuple[int, list[str]]:
    """How many libraries pip-audit could ask about, and what is known against which. No report is about none."""
    try:
        asked = [each for each in json.loads(report)["dependencies"] if "vulns" in each]
    except (ValueError, LookupError, TypeError):
        return 0, []
    found = [
        f"{each['name']} {each['version']}: {known['id']}"
        + (f", mended in {', '.join(known['fix_versions'])}" if known.get("fix_versions") else "")
        for each in asked
        for known in each["vulns"]
    ]
    return len(asked), found


def blocks(text: str) -> list[str]:
    """The lock library by library, without the conditions: advisories are asked for whatever the platform."""
    found = re.split(r"^(?=[a-z0-9])", re.sub(r" ; [^\\\n]*", " ", text), flags=re.MULTILINE)
    return [block for block in found if _PIN.match(block)]


def asked(program: Path, libraries: Sequence[str], service: str, accepted: Sequence[str]) -> tuple[int, list[str]]:
    """What pip-audit, installed in that folder, says of the libraries."""
    with tempfile.TemporaryDirectory() as folder:
        answers = []
        # Two versions of one library, for different Pythons, make two files: pip-audit refuses them in one.
        for number, part in enumerate(_apart(libraries)):
            file = Path(folder, f"{number}.txt")
            file.write_text("".join(part), encoding="utf-8")
            command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "-r", str(file)]
            command += ["--format", "json", "--progress-spinner", "off", "--timeout", "5", "--vulnerability-service"]
            command += [service, *(word for known in accepted for word in ("--ignore-vuln", known))]
            answers.append(advisories(_run(command, {**os.environ, "PYTHONPATH": str(program)})))
    return sum(count for count, _ in answers), [line for _, lines in answers for line in lines]


def _apart(libraries: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[], []]
    seen: set[str] = set()
    for block in libraries:
        name = block.partition("==")[0]
        parts[name in seen].append(block)
        seen.add(name)
    return [part for part in parts if part]


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=SECONDS,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def known_against(libraries: Sequence[str]) -> tuple[int, list[str]]:
    """About how many of the libraries somebody could be asked, and the advisories about them."""
    accepted = [line.split()[0] for line in _lines(ACCEPTED)]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder)
        install = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-deps"]
        _run([*install, "--require-hashes", "--target", folder, "-r", str(AUDIT_LOCK)])
        for service in SERVICES if (program / "pip_audit").is_dir() else ():
            if asked(program, libraries[:1], service, accepted)[0]:
                return asked(program, libraries, service, accepted)
    return 0, []


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def main() -> int:
    """Check, and say what was found."""
    lock = LOCK.read_text(encoding="utf-8")
    installed: list[Any] = [each for each in distributions() if each.metadata["Name"]]
    wrong = [*not_as_locked(installed, pins(lock) | pins(CONSTRAINTS.read_text(encoding="utf-8")))]
    files = 0
    for each in installed:
        wrong += not_as_recorded(each)
        files += sum(file.hash is not None for file in each.files or ())
    for line in wrong:
        print(line)
    if wrong:
        print("`python scripts/lock.py` takes other versions into the lock; RAGCLI_VENV names another environment.")
        return 1
    print(f"{len(installed)} libraries as in the lock, {files:,} files as they were installed.")
    libraries = blocks(lock)
    count, found = known_against(libraries)
    for line in found:
        print(line)
    if count:
        print(f"{len(found)} advisories; asked about {count} of {len(libraries)} libraries.")
    else:
        print("No advisory service answered, so what is known against them was not asked.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
