"""The lock of the libraries, and the audit of what is installed."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tomllib
from collections.abc import Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts import audit, lock

ROOT = Path(__file__).parents[2]
TEXT = lock.LOCK.read_text(encoding="utf-8")


def test_the_lock_has_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in lock.EXTRAS:
        wanted += project["project"]["optional-dependencies"][extra]
    locked = audit.pins(TEXT)
    for each in map(Requirement, wanted):
        if canonicalize_name(each.name) != "ragcli":
            versions = locked.get(canonicalize_name(each.name), set())
            message = f"{each} is not met by the lock ({versions}); run scripts/lock.py"
            assert any(version in each.specifier for version in versions), message
    assert locked["torch"] == audit.pins((ROOT / "scripts" / "constraints.txt").read_text(encoding="utf-8"))["torch"]


@pytest.mark.parametrize("file", [lock.LOCK, lock.AUDIT_LOCK])
def test_every_library_in_a_lock_has_hashes_and_no_address(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert "://" not in text
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) > 20
    for entry in entries:
        first, *hashes = entry.rstrip("\n").split(" \\\n")
        pin, _, marker = first.partition(" ; ")
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]*==[0-9][\w.]*", pin), first
        assert not marker or Marker(marker)
        assert hashes
        assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", each) for each in hashes), entry
    assert "pip-audit" in audit.pins(lock.AUDIT_LOCK.read_text(encoding="utf-8"))


def test_what_only_an_extra_needs_or_only_one_build_of_pytorch_brings_is_not_for_the_tests() -> None:
    assert re.search(r"^rapidocr==\S+ ; extra == 'ocr'", TEXT, re.MULTILINE)
    assert re.search(r"^torch==\S+ ; sys_platform != 'linux'", TEXT, re.MULTILINE)
    assert not [name for name in audit.pins(TEXT) if lock.OF_TORCH.fullmatch(name)]


@pytest.mark.parametrize(
    ("wheel", "usable"),
    [
        ("rich-15.0.0-py3-none-any.whl", True),
        ("six-1.17.0-py2.py3-none-any.whl", True),
        ("numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", True),
        ("numpy-2.4.6-cp313-cp313-macosx_14_0_arm64.whl", True),
        ("tokenizers-0.23-cp39-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64.whl", True),
        ("numpy-2.4.6-cp313-cp313t-macosx_14_0_arm64.whl", False),
        ("numpy-2.4.6-cp310-cp310-macosx_14_0_arm64.whl", False),
        ("numpy-2.4.6-cp311-cp311-win_amd64.whl", False),
        ("numpy-2.4.6-cp311-cp311-musllinux_1_2_x86_64.whl", False),
        ("numpy-2.4.6-pp311-pypy311_pp73-manylinux_2_27_x86_64.whl", False),
        ("x-1-cp311-cp311-manylinux_2_27_ppc64le.whl", False),
    ],
)
def test_archives_for_systems_that_ragcli_does_not_run_on_are_left_out(wheel: str, usable: bool) -> None:
    assert lock.usable(wheel) is usable


def test_a_library_becomes_lines_that_pip_reads() -> None:
    package = {
        "name": "x",
        "version": "1.2",
        "marker": "python_full_version >= '3.11' and (a == 'b' or c == 'd')",
        "wheels": [
            {"url": "https://host/x-1.2-py3-none-any.whl", "hashes": {"sha256": "b" * 64}},
            {"url": "https://host/x-1.2-cp311-cp311-win32.whl", "hashes": {"sha256": "c" * 64}},
        ],
        "sdist": {"url": "https://host/x-1.2.tar.gz", "hashes": {"sha256": "a" * 64}},
    }
    assert list(lock.lines_of(package, aside=True)) == [
        "x==1.2 ; ((a == 'b' or c == 'd')) and extra == 'ocr'",
        f"    --hash=sha256:{'a' * 64}",
        f"    --hash=sha256:{'b' * 64}",
    ]


def install(site: Path, name: str, version: str, **files: str) -> None:
    """A library as an installer leaves it."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    rows = [f"{info.name}/METADATA,,", f"{info.name}/RECORD,,"]
    for file, content in files.items():
        (site / f"{file}.py").write_text(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{file}.py,sha256={digest},{len(content)}")
    (info / "RECORD").write_text("\n".join(rows) + "\n")


def found_in(site: Path) -> list[Distribution]:
    return sorted(distributions(path=[str(site)]), key=lambda each: each.metadata["Name"])


def test_a_library_that_is_not_in_the_lock_or_in_another_version_is_told(tmp_path: Path) -> None:
    install(tmp_path, "Fine_Name", "1.0")
    install(tmp_path, "newer", "2.0")
    install(tmp_path, "stray", "0.1")
    install(tmp_path, "torch", "2.13.0+cpu")
    install(tmp_path, "nvidia-cublas", "13")
    install(tmp_path, "pip", "99")
    locked = audit.pins("fine-name==1.0 \\\nnewer==1.0 ; python_version < '3.12' \\\nnewer==1.5 \\\ntorch==2.13.0\n")
    assert list(audit.not_as_locked(found_in(tmp_path), locked)) == [
        "newer is installed in version 2.0; the lock has 1.0 or 1.5.",
        "stray 0.1 is installed and not in the lock.",
    ]


def test_a_file_that_was_changed_or_removed_after_its_installation_is_told(tmp_path: Path) -> None:
    install(tmp_path, "lib", "1.0", one="x = 1\n", two="y = 2\n", three="z = 3\n")
    (lib,) = found_in(tmp_path)
    assert list(audit.not_as_recorded(lib)) == []
    (tmp_path / "two.py").write_text("y = 3\n")
    (tmp_path / "three.py").unlink()
    assert list(audit.not_as_recorded(lib)) == [
        f"{tmp_path / 'two.py'} is not as lib 1.0 was installed.",
        f"{tmp_path / 'three.py'} of lib cannot be read.",
    ]


def report(*libraries: dict[str, object]) -> str:
    return json.dumps({"dependencies": libraries, "fixes": []})


KNOWN = {"id": "PYSEC-1", "fix_versions": ["2.1"], "aliases": [], "description": "bad"}


def test_a_service_that_knows_no_library_counts_as_none() -> None:
    assert audit.advisories("") == (0, [])
    assert audit.advisories("[]") == (0, [])
    assert audit.advisories(report({"name": "a", "skip_reason": "Dependency not found"})) == (0, [])
    assert audit.advisories(
        report({"name": "a", "version": "1", "vulns": []}, {"name": "b", "version": "2", "vulns": [KNOWN]})
    ) == (2, ["b 2: PYSEC-1, mended in 2.1"])


@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        ("", 0, "No advisory service answered"),
        (report({"name": "a", "skip_reason": "not found"}), 0, "No advisory service answered"),
        (report({"name": "a", "version": "1", "vulns": []}), 0, "0 advisories; asked about "),
        (report({"name": "a", "version": "1", "vulns": [KNOWN]}), 1, "a 1: PYSEC-1"),
    ],
)
def test_the_audit_asks_where_it_can_and_says_where_it_could_not(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    code: int,
    told: str,
) -> None:
    install(tmp_path, "rich", next(iter(audit.pins(TEXT)["rich"])))
    monkeypatch.setattr(audit, "distributions", lambda: found_in(tmp_path))
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str], environment: object = None) -> str:
        commands.append(command)
        if "--target" in command:
            Path(command[command.index("--target") + 1], "pip_audit").mkdir()
            assert "--require-hashes" in command
            return ""
        return answer

    monkeypatch.setattr(audit, "_run", run)
    assert audit.main() == code
    assert told in capsys.readouterr().out
    # Installed, then tried with one library; only where that is answered with all of them.
    assert len(commands) == {True: 1 + 1 + 2, False: 1 + 2}["vulns" in answer]


def test_a_library_that_is_not_as_it_should_be_fails_the_audit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, "stray", "0.1")
    monkeypatch.setattr(audit, "distributions", lambda: found_in(tmp_path))
    assert audit.main() == 1
    assert "stray 0.1 is installed and not in the lock." in capsys.readouterr().out
