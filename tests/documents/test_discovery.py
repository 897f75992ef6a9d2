"""Which files are found, and which are passed over and counted."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ragcli.documents.discovery import discover
from ragcli.errors import InputError, UsageError

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    root = tmp_path / "papers"
    for name in ("b.pdf", "a.md", "sub/c.TXT", "sub/deep/d.html", "sub/e.jsonl"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x", encoding="utf-8")
    return root


def sources(*roots: Path, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> list[str]:
    return [file.source for file in discover(roots, include=include, exclude=exclude).files]


def test_files_are_found_in_folders_and_sorted_by_their_place_in_them(papers: Path) -> None:
    found = discover([papers])
    assert [file.source for file in found.files] == ["a.md", "b.pdf", "sub/c.TXT", "sub/deep/d.html", "sub/e.jsonl"]
    assert all(file.path.is_absolute() and file.path.is_file() for file in found.files)
    assert found.skipped == {}


def test_unknown_suffixes_and_hidden_files_are_counted_and_passed_over(papers: Path) -> None:
    for name in ("x.docx", "y.docx", "Makefile", ".hidden.md", ".git/z.md"):
        (papers / name).parent.mkdir(exist_ok=True)
        (papers / name).write_text("x", encoding="utf-8")
    assert discover([papers]).skipped == {".docx": 2, "hidden": 2, "no suffix": 1}


def test_a_hidden_folder_named_by_the_user_is_read(tmp_path: Path) -> None:
    (tmp_path / ".notes").mkdir()
    (tmp_path / ".notes" / "a.md").write_text("x", encoding="utf-8")
    assert sources(tmp_path / ".notes") == ["a.md"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (("*.md",), (), ["a.md"]),
        (("sub/*",), (), ["sub/c.TXT", "sub/e.jsonl"]),
        (("sub/**",), (), ["sub/c.TXT", "sub/deep/d.html", "sub/e.jsonl"]),
        (("**/*.html", "b.*"), (), ["b.pdf", "sub/deep/d.html"]),
        (("**/a.md",), (), ["a.md"]),
        ((), ("sub",), ["a.md", "b.pdf"]),
        ((), ("sub/",), ["a.md", "b.pdf"]),
        ((), ("deep",), ["a.md", "b.pdf", "sub/c.TXT", "sub/e.jsonl"]),
        ((), ("sub/deep/**", "?.pdf"), ["a.md", "sub/c.TXT", "sub/e.jsonl"]),
        ((), ("[!a].*",), ["a.md"]),
        (("[ab].*",), ("a*",), ["b.pdf"]),
    ],
)
def test_globs_choose(papers: Path, include: tuple[str, ...], exclude: tuple[str, ...], expected: list[str]) -> None:
    assert sources(papers, include=include, exclude=exclude) == expected


def test_a_glob_that_can_match_nothing_is_a_usage_error(papers: Path) -> None:
    with pytest.raises(UsageError):
        discover([papers], include=("/",))


def test_a_missing_root_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        discover([tmp_path / "nowhere"])


def test_a_file_named_twice_is_one_file(papers: Path) -> None:
    assert sources(papers / "a.md", papers / "sub", papers / "a.md", papers) == [
        *("a.md", "b.pdf", "c.TXT", "deep/d.html", "e.jsonl"),
    ]


@posix
def test_links_are_followed_inside_the_root_only_and_loops_end(papers: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "private.md").write_text("x", encoding="utf-8")
    (papers / "loop").symlink_to(papers)
    (papers / "sub" / "up").symlink_to(papers / "sub")
    (papers / "out").symlink_to(outside)
    (papers / "gone.md").symlink_to(papers / "nothing.md")
    (papers / "again.md").symlink_to(papers / "a.md")
    found = discover([papers])
    assert len(found.files) == 5
    assert {file.source for file in found.files} - {"a.md", "again.md"} == {
        *("b.pdf", "sub/c.TXT", "sub/deep/d.html", "sub/e.jsonl"),
    }
    assert found.skipped == {"broken link": 1, "link out of the folder": 1, "linked twice": 2}


@posix
def test_no_link_leads_out_of_the_folder_that_was_named(papers: Path, tmp_path: Path) -> None:
    outside = tmp_path / "papers-of-others"
    (outside / "deep").mkdir(parents=True)
    for name in ("library.pdf", "deep/diary.md"):
        (outside / name).write_text("x", encoding="utf-8")
    os.mkfifo(outside / "pipe.md")
    (papers / "absolute.pdf").symlink_to(outside / "library.pdf")
    (papers / "relative.md").symlink_to("../papers-of-others/deep/diary.md")
    (papers / "sub" / "folder").symlink_to("../../papers-of-others/deep")
    (papers / "step").symlink_to("sub")
    (papers / "two-steps.md").symlink_to("step/folder/diary.md")
    (papers / "everything").symlink_to("/")
    (papers / "pipe.md").symlink_to(outside / "pipe.md")
    (papers / "endless.md").symlink_to("endless.md")
    found = discover([papers])
    assert {os.path.realpath(file.path) for file in found.files} == {
        str(papers.resolve() / name) for name in ("a.md", "b.pdf", "sub/c.TXT", "sub/deep/d.html", "sub/e.jsonl")
    }
    # Over `step` the folder `sub` is seen twice, and so are the link and the folder in it.
    assert found.skipped == {"broken link": 1, "link out of the folder": 7, "linked twice": 1}


@posix
def test_a_link_that_is_named_by_the_user_is_followed(papers: Path, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(papers)
    (tmp_path / "one.md").symlink_to(papers / "a.md")
    assert len(sources(tmp_path / "way")) == 5
    assert sources(tmp_path / "one.md") == ["one.md"]


@posix
def test_pipes_and_sockets_are_passed_over(papers: Path) -> None:
    os.mkfifo(papers / "pipe.md")
    assert discover([papers]).skipped == {"not a file": 1}
    with pytest.raises(InputError, match=r"pipe\.md"):
        discover([papers / "pipe.md"])


@posix
def test_names_of_any_bytes_can_be_found_and_shown(papers: Path) -> None:
    for name in (b"new\nline.md", "emoji 🌀.md".encode(), b"broken \xff.md"):
        try:
            with open(os.fsencode(papers) + b"/" + name, "wb") as file:  # noqa: PTH123
                file.write(b"x")
        except OSError:
            pytest.skip("this file system takes no such names")
    found = sources(papers)
    assert "new\nline.md" in found
    assert "emoji 🌀.md" in found
    assert "broken \\xff.md" in found
    assert all(source.encode("utf-8") for source in found)


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_counted(papers: Path) -> None:
    (papers / "sub").chmod(0)
    try:
        assert discover([papers]).skipped == {"unreadable": 1}
    finally:
        (papers / "sub").chmod(0o755)
