"""A collection that several share: nothing that reads it reads what is another's, whatever the call.

The commands are taken from the program itself, so that one that is new fails here until somebody has said whether it
reads documents, and how it is called to read them.
"""

from __future__ import annotations

import inspect
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.house.test_architecture import ALL_IMPORTS
from tests.support.cli_calls import Called, called
from tests.support.collection_builders import HashEncoder, new_collection
from tests.support.llm_server import llm_server
from tests.support.tiny_models import tiny_encoder

import ragcli.collection
from ragcli.agent import as_retriever, collection_sources
from ragcli.cli.app import root_command
from ragcli.collection import Collection, Snapshot, changed_sources, export_collection, reindex
from ragcli.errors import CollectionError, TenantNeeded, UsageError
from ragcli.retrieval.exact_search import GrepRequest, count, grep
from ragcli.retrieval.searcher import Searcher

SECRETS = {
    "alpha": ("quokkaplan", "alphadocs", "alpha-record"),
    "beta": ("narwhalplan", "betadocs", "beta-record"),
    "nobody": ("axolotlplan", "orphandocs", "orphan-record"),
}
"""Of each, a word of the texts, a word of the files' names, and the id of a record."""
SHARED_ID = "shared-record"


@dataclass(frozen=True)
class Place:
    """A data folder with the collection `shared`, the documents it was made of, and their ids by owner."""

    data: Path
    given: Path
    cache: Path
    ids: dict[str, str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("tenants")
    data, given, cache = folder / "data", folder / "given", folder / "cache"
    encoder = tiny_encoder(folder / "encoder")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("DATA_DIR", data), ("CACHE_DIR", cache)):
            patch.setenv(f"RAGCLI_{name}", str(value))
        patch.delenv("RAGCLI_TENANT", raising=False)
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HOME", str(folder))
        for owner, (word, name, record) in SECRETS.items():
            team = "" if owner == "nobody" else f"team: {owner}\n"
            text = (
                f"---\n{team}label: {word}\n---\n# {word} energy\n\nThe {word} of negative energy opens a wormhole.\n"
            )
            (given / name).mkdir(parents=True)
            (given / name / f"{name}.md").write_text(text)
            line = {"id": record, "text": f"the {word} wants negative energy", "label": word}
            lines = json.dumps(line | ({} if owner == "nobody" else {"team": owner}))
            (given / name / f"{name}.jsonl").write_text(lines + "\n")
        line = {"id": SHARED_ID, "text": "negative energy is for both", "team": ["alpha", "beta"]}
        (given / "both.jsonl").write_text(json.dumps(line) + "\n")
        (given / "betadocs" / "betadocs-broken.pdf").write_text("narwhalplan")
        made = called("ingest", str(given), "-c", "shared", "--encoder", str(encoder), "--tenant-key", "team")
        assert made.code == 4, made.said
        assert "2 documents have no 'team' that names a tenant, so no tenant can read them" in " ".join(
            made.err.split()
        )
        ids = {}
        with Snapshot(data / "shared", everything=True) as snapshot:
            for row in snapshot.documents():
                for owner, (_, name, _) in SECRETS.items():
                    if row.kind == "markdown" and name in row.source:
                        ids[owner] = row.document_id
        yield Place(data, given, cache, ids)


def leaks(text: str, owner: str, place: Place) -> list[str]:
    """What of an owner's stands in a text."""
    return [each for each in (*SECRETS[owner], place.ids[owner]) if each in text]


# What reads documents, and how it is called to do so. {id} is the id of a document of another's.
READS: dict[str, list[list[str]]] = {
    "query": [
        ["query", "negative energy", "--top", "50"],
        ["query", "narwhalplan", "--top", "50", "--json"],
        ["query", "negative energy", "--top", "50", "--json", "--explain", "--pipeline", "classic"],
        *(["query", "narwhalplan energy", "--top", "50", "--jsonl", "--pipeline", each] for each in ("bm25", "tfidf")),
        ["query", "negative energy", "--top", "50", "--paths", "--pipeline", "dense"],
        ["query", "energy", "--where", "not exists nothing", "--top", "50", "--json"],
        ["query", "energy", "--filter", '{"team": "beta"}', "--top", "50", "--json"],
        ["query", "energy", "--where", "label = 'narwhalplan'", "--json"],
        ["query", "energy", "--where", "labl = 'x'", "--json"],
        ["query", "--like", "{id}:0", "--top", "50", "--json"],
        ["query", "--like", "{id}", "--json"],
        ["query", "--like", "beta-record", "--json"],
        ["query", "energy", "--expand", "rm3", "--top", "50", "--explain"],
        ["query", "energy", "--group", "--top", "50", "--json"],
        ["query", "energy", "--recency", "0.5", "--diversity", "mmr=0.5", "--top", "50", "--json"],
        ["query", "energy", "--compress", "extractive", "--decompose", "--top", "50", "--json"],
    ],
    "ask": [
        ["ask", "what opens a wormhole", "--json", "--explain", "--extract", "--override"],
        ["ask", "what does narwhalplan open", "--json", "--extract", "--override"],
        ["ask", "what does narwhalplan open", "--agent", "--trace", "--json"],
        ["ask", "what does narwhalplan open", "--agent"],
    ],
    "check": [["check", "{draft}", "--json"], ["check", "{draft}"]],
    "grep": [
        ["grep", "energy", "--json", "--all"],
        ["grep", "narwhalplan"],
        ["grep", "-E", "[a-z]+plan", "--all", "--max-hits", "1000"],
        ["grep", "energy", "--count"],
        ["grep", "energy", "-l", "--where", "not draft"],
    ],
    "show": [
        ["show", "{id}"],
        ["show", "{id}:0", "--around", "3"],
        ["show", "beta-record", "--json"],
        ["show", "{path}"],
        ["show", "betadocs/betadocs.md"],
        ["show", "shared-record:0", "--around", "5"],
    ],
    "documents": [
        ["documents"],
        ["documents", "--json"],
        ["documents", "--fields", "--json"],
        ["documents", "--where", "not exists nothing", "--json"],
        ["documents", "--where", "nothing = 1"],
    ],
    "eval": [
        ["eval", "{questions}", "--compare", "bm25,dense,hybrid", "--json", "--per-query"],
        ["eval", "{questions}", "--compare", "bm25,tfidf,hybrid", "--run-out", "{runs}"],
    ],
    "collections export": [["collections", "export", "shared", "-"]],
}
# What says something of collections and nothing of documents; for this no tenant is needed.
TELLS: dict[str, list[list[str]]] = {
    "collections": [["collections"], ["collections", "--json"]],
    "collections list": [["collections", "list"], ["collections", "list", "--json"]],
    "collections show": [["collections", "show", "shared"], ["collections", "show", "shared", "--json"]],
    "collections verify": [["collections", "verify", "shared"], ["collections", "verify", "--json"]],
}
# What reads no collection's documents: it writes them, or has nothing to do with them.
OTHERS = {
    "ingest": "takes files in, and tells of those it was given",
    "reindex": "makes everything anew but the texts, and tells counts",
    "import-index": "makes a collection of an index that it is given",
    "collections import": "makes a collection of an archive that it is given",
    "collections rename": "renames a folder",
    "collections delete": "removes a folder",
    "plugins": "tells of installed packages",
    "models": "tells of models",
    "models list": "tells of models",
    "models pull": "fetches a model",
    "models path": "tells of a model",
    "trust": "tells of configurations",
    "help": "shows the manual",
}


def commands(group: Any, context: Any = None, above: str = "") -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield f"{above}{name}"
        if hasattr(command, "list_commands"):
            yield from commands(command, context, f"{above}{name} ")


def test_every_command_is_known_to_read_documents_or_not_to() -> None:
    known = {*READS, *TELLS, *OTHERS}
    found = set(commands(root_command()))
    assert found - known == set(), "say above whether these read documents, and how"
    assert known - found == set()


READING = [pytest.param(words, id=" ".join(words)[:70]) for calls in READS.values() for words in calls]


Fill = Callable[[Sequence[str], str], list[str]]


@pytest.fixture
def filled(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fill:
    """The words of a call with its gaps filled: ids and paths of beta's documents, questions that `reader` may ask."""
    monkeypatch.chdir(tmp_path)

    def fill(words: Sequence[str], reader: str) -> list[str]:
        own = [place.ids[reader], SECRETS[reader][2]] if reader in SECRETS else []
        question = {"query": "what wants energy", "relevant_ids": [*own, SHARED_ID]}
        (tmp_path / "questions.jsonl").write_text(json.dumps(question) + "\n")
        (tmp_path / "draft.md").write_text("The plan of negative energy opens a wormhole. It wants a wormhole, too.\n")
        gaps = {
            "{id}": place.ids["beta"],
            "{path}": str(place.given / "betadocs" / "betadocs.md"),
            "{questions}": str(tmp_path / "questions.jsonl"),
            "{draft}": str(tmp_path / "draft.md"),
            "{runs}": str(tmp_path / "runs"),
        }
        whole = [gaps.get(word, word.replace("{id}:", f"{place.ids['beta']}:")) for word in words]
        return [*whole, "-c", "shared"] if words[0] == "eval" else whole

    return fill


def all_that_it_left(done: Called, words: Sequence[str], folder: Path) -> str:
    """Both outputs, without what the call itself had said, and what it wrote into files."""
    told = done.out + "\n".join(line for line in done.err.splitlines())
    for word in sorted(words, key=len, reverse=True):
        for each in (word, word.removesuffix(":0")):
            told = told.replace(each, "")
    runs = [path for path in [folder / "runs", *(folder / "runs").rglob("*")] if path.is_file()]
    return told + "".join(path.read_text() for path in runs)


@pytest.mark.parametrize("words", READING)
def test_nothing_is_read_without_a_tenant(words: list[str], place: Place, filled: Fill, tmp_path: Path) -> None:
    for named in ([], ["-c", "shared"]):
        asked = [*filled(words, "beta"), *(named if words[0] not in ("collections", "eval") else [])]
        done = called(*asked)
        assert done.code == 2, done.said
        assert "--tenant NAME or RAGCLI_TENANT" in done.err
        left = all_that_it_left(done, asked, tmp_path)
        for owner in SECRETS:
            assert leaks(left, owner, place) == []


@pytest.mark.parametrize("words", READING)
def test_another_tenant_reads_nothing_of_what_is_not_theirs(
    words: list[str], place: Place, filled: Fill, tmp_path: Path
) -> None:
    asked = filled(words, "alpha")
    done = called(*asked, "--tenant", "alpha")
    assert done.code in (0, 1, 3, 6), done.said
    left = all_that_it_left(done, asked, tmp_path)
    assert leaks(left, "beta", place) + leaks(left, "nobody", place) == []


@pytest.mark.parametrize("tenant", ["gamma", "Beta", "beta ", "bet%", "alpha,beta", "team", "None"])
def test_a_tenant_that_nobody_knows_reads_nothing(
    tenant: str, place: Place, filled: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGCLI_TENANT", tenant)
    for calls in READS.values():
        asked = filled(calls[0], tenant)
        done = called(*asked)
        assert done.code in (0, 1, 3, 6), done.said
        left = all_that_it_left(done, asked, tmp_path)
        for owner in SECRETS:
            assert leaks(left, owner, place) == [], asked


def test_each_command_would_show_it_to_whom_it_belongs(place: Place, filled: Fill, tmp_path: Path) -> None:
    """So that the tests above prove something: every command has a call that shows what it may."""
    for command, calls in READS.items():
        found = ""
        for words in calls:
            asked = filled(words, "beta")
            done = called(*asked, "--tenant", "beta")
            assert done.code in (0, 6), done.said
            found += all_that_it_left(done, asked, tmp_path)
        assert leaks(found, "beta", place), command
        assert leaks(found, "alpha", place) + leaks(found, "nobody", place) == []


@pytest.mark.parametrize("words", [pytest.param(each, id=" ".join(each)) for calls in TELLS.values() for each in calls])
def test_what_tells_of_collections_tells_nothing_of_documents(words: list[str], place: Place) -> None:
    for tenant in ([], ["--tenant", "alpha"], ["--tenant", "gamma"]):
        done = called(*words, *tenant)
        assert done.code == 0, done.said
        for owner in SECRETS:
            assert leaks(done.said, owner, place) == []


def test_counts_are_the_tenants_own(place: Place) -> None:
    def told(*tenant: str) -> tuple[object, ...]:
        (shared,) = json.loads(called("collections", "--json", *tenant).out)
        return shared["documents"], shared["chunks"], shared["failures"]

    assert told() == (None, None, None)
    assert told("--tenant", "alpha") == (3, 3, None)
    assert told("--tenant", "gamma") == (0, 0, None)
    assert json.loads(called("collections", "show", "shared", "--json").out)["failed"] == []


def test_of_several_collections_the_others_are_read(place: Place, tmp_path: Path) -> None:
    (tmp_path / "open.md").write_text("negative energy is open to all")
    assert called("ingest", str(tmp_path / "open.md"), "-c", "open", "--encoder", "none").code == 0
    try:
        done = called("grep", "negative energy", "--json")
        assert done.code == 0
        assert {hit["collection"] for hit in json.loads(done.out)} == {"open"}
        assert "'shared' is divided among tenants by 'team'" in done.err
        done = called("grep", "negative energy", "--json", "--tenant", "alpha")
        assert {hit["collection"] for hit in json.loads(done.out)} == {"open", "shared"}
    finally:
        assert called("collections", "delete", "open", "--yes").code == 0


def test_another_tenants_passages_reach_no_language_model(place: Place, tmp_path: Path) -> None:
    with llm_server('{"queries": ["energy"], "answer": "No idea."}') as server:
        ways = (
            ["query", "narwhalplan energy", "--hyde", "--expand", "llm", "--compress", "llm", "--top", "20"],
            ["ask", "what does the narwhalplan open", "--answer", "--override", "--check", "none"],
            ["ask", "what does the narwhalplan open", "--agent"],
        )
        for words in ways:
            called(*words, "--tenant", "alpha", "--llm-base-url", server.base_url, "--llm-model", "m")
        sent = json.dumps([each.body for each in server.requests])
    assert "quokkaplan" in sent
    assert leaks(sent.replace("narwhalplan energy", "").replace("the narwhalplan open", ""), "beta", place) == []


def test_completion_of_a_shell_completes_names_of_collections_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (
        "ragcli query -c ",
        "ragcli grep x -c ",
        "ragcli show ",
        "ragcli documents -c ",
        "ragcli query --like ",
    ):
        monkeypatch.setenv("_RAGCLI_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
        done = called()
        for owner in SECRETS:
            assert leaks(done.said, owner, place) == []


# The library


def test_every_way_of_the_library_to_read_needs_a_tenant(place: Place) -> None:
    collection = Collection.open(place.data, "shared")
    with collection.for_tenant("alpha").snapshot() as snapshot:
        own = snapshot.document_chunks(place.ids["alpha"])
    ways: dict[str, Callable[[], object]] = {
        "snapshot": collection.snapshot,
        "Snapshot": lambda: Snapshot(collection.path),
        "Searcher": lambda: Searcher([collection]).__enter__(),
        "grep": lambda: grep([collection], GrepRequest("energy")),
        "count": lambda: count([collection], GrepRequest("energy")),
        "export": lambda: export_collection(collection, io.BytesIO()),
        "changed_sources": lambda: changed_sources([collection], own),
        "store": lambda: collection.store().__enter__(),
        "agent": lambda: as_retriever("shared", data_dir=place.data)("energy"),
        "agent's sources": lambda: dict(collection_sources(data_dir=place.data))["shared"]("energy"),
    }
    for way in ways.values():
        with pytest.raises(TenantNeeded, match=r"divided among tenants by 'team'"):
            way()
    for wrong in ("", "x" * 201):
        with pytest.raises(UsageError):
            collection.snapshot(wrong)
    for retriever in (
        as_retriever("shared", data_dir=place.data, tenant="alpha", pipeline="bm25"),
        collection_sources(data_dir=place.data, tenant="alpha")["shared"],
    ):
        found = repr(retriever("narwhalplan wants negative energy"))
        assert leaks(found, "alpha", place)
        assert leaks(found, "beta", place) == []
    assert (collection.info().documents, collection.failures()) == (None, ())
    assert collection.verify() == ()


# How each public part of a snapshot is held to what is the tenant's; one that is new fails until it is here.
SNAPSHOT: dict[str, Callable[[Snapshot, Place], object]] = {
    "chunks": lambda s, _: [each.text for each in s.chunks(range(1000)).values()],
    "document_chunks": lambda s, p: s.document_chunks(p.ids["beta"]),
    "documents": lambda s, _: list(s.documents()),
    "fields": lambda s, _: s.fields(examples=100),
    "find_chunk": lambda s, p: s.find_chunk(f"{p.ids['beta']}:0"),
    "texts": lambda s, _: list(s.texts()),
    "lexical": lambda s, _: (s.lexical.search("narwhalplan", 10), s.lexical.frequency("narwhalplan")),
    "provenance": lambda s, _: s.provenance(range(1000)),
}


def test_a_snapshot_knows_nothing_of_others(place: Place) -> None:
    with Snapshot(place.data / "shared", everything=True) as snapshot:
        numbers = {each.number: each.document_id for each in snapshot.chunks(range(1000)).values()}
        betas = next(each for each in snapshot.chunks(range(1000)).values() if each.document_id == place.ids["beta"])
    mine = [
        number for number, document in numbers.items() if document in (place.ids["alpha"], "alpha-record", SHARED_ID)
    ]
    with Collection.open(place.data, "shared", tenant="alpha").snapshot() as snapshot:
        for name, read in SNAPSHOT.items():
            assert leaks(repr(read(snapshot, place)), "beta", place) == [], name
        assert sorted(snapshot.chunks(list(numbers))) == sorted(mine)
        assert sorted(snapshot.rows(list(numbers))) == sorted(mine)
        assert sorted(snapshot.dates(list(numbers))) == sorted(mine)
        assert (snapshot.record.documents, snapshot.chunk_count) == (3, 3)
        live = np.delete(snapshot.row_numbers, snapshot.dead)
        assert live.tolist() == sorted(mine)
        assert snapshot.neighbours(betas, 5) == ()
        with pytest.raises(CollectionError):
            snapshot.document(place.ids["beta"])
        with pytest.raises(CollectionError):
            snapshot.live_chunks(list(numbers))


def test_everything_that_a_snapshot_offers_was_thought_of() -> None:
    thought_of = {*SNAPSHOT, "document", "live_chunks", "rows", "dates", "neighbours", "document_numbers", "matching"}
    thought_of |= {"page_of", "same_text"}
    # Numbers and settings; vectors, which are asked for by rows of the tenant's; and the end.
    harmless = {
        *("settings", "generation", "chunk_count", "tfidf_stale", "own_numbers", "row_numbers", "dead", "rows"),
        *("vectors", "signs", "tokens", "token_frequency", "tfidf", "check_vectors", "unknown_keys"),
        "close",
    }
    public = {name for name, _ in inspect.getmembers(Snapshot) if not name.startswith("_")}
    assert public - thought_of - harmless == set()


def test_nothing_but_the_collection_floor_opens_a_store() -> None:
    """So whatever the floors above read, they read through a snapshot or a handle."""
    below = (
        "sqlite3",
        "ragcli.collection.write.collection_writer",
        "ragcli.collection.store.sqlite_connection",
        "ragcli.collection.store.document_text",
        "ragcli.collection.read.document_queries",
        "ragcli.collection.read.metadata_filter",
        "ragcli.collection.read.tenant_views",
    )
    assert [
        f"{each.importer} imports {each.imported}"
        for each in ALL_IMPORTS
        if each.imported.startswith(below)
        and not each.typing_only
        and not each.importer.startswith("ragcli.collection")
    ] == []


def test_only_what_checks_or_copies_as_a_whole_reads_for_all() -> None:
    root = Path(ragcli.collection.__file__).parents[1]
    found = {path.name for path in root.rglob("*.py") if "everything=True" in path.read_text()}
    assert found == {"handle.py", "archive_transfer.py"}


def test_an_export_holds_one_tenants_part_and_nothing_else(place: Place, tmp_path: Path) -> None:
    archive = tmp_path / "alpha.tar"
    done = called("collections", "export", "shared", str(archive), "--tenant", "alpha")
    assert done.code == 0, done.said
    for owner in ("beta", "nobody"):
        assert leaks(archive.read_bytes().decode("latin-1"), owner, place) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGCLI_DATA_DIR", str(tmp_path / "data"))
        assert called("collections", "import", str(archive)).code == 0
        assert called("collections", "verify").code == 0
        assert called("grep", "energy").code == 2
        assert called("grep", "energy", "--tenant", "beta", "--count").out.count("\n") == 1
        words = ["query", "quokkaplan energy", "--json", "--tenant", "alpha"]
        there = json.loads(called(*words).out)
    here = json.loads(called(*words).out)
    assert [(hit["chunk_id"], hit["cosine"]) for hit in there] == [(hit["chunk_id"], hit["cosine"]) for hit in here]
    assert {hit["chunk_id"] for hit in there} == {f"{place.ids['alpha']}:0", "alpha-record:0", f"{SHARED_ID}:0"}


def test_an_export_for_a_tenant_that_nobody_has_is_refused_and_writes_nothing(place: Place, tmp_path: Path) -> None:
    archive = tmp_path / "gamma.tar"
    done = called("collections", "export", "shared", str(archive), "--tenant", "gamma")
    assert (done.code, done.out) == (3, "")
    assert "no document of a tenant 'gamma'" in done.err
    assert list(tmp_path.iterdir()) == []
    assert list(place.data.glob(".new-*")) == []


def test_a_tenant_key_is_fixed_when_a_collection_is_made(tmp_path: Path, place: Place) -> None:
    collection = Collection.open(place.data, "shared")
    with pytest.raises(UsageError, match="fixed for good"):
        reindex(collection, new_collection(tmp_path, "x").settings, HashEncoder)
    done = called("ingest", str(place.given), "-c", "shared", "--tenant-key", "label")
    assert done.code == 3
    assert "divided among tenants by 'team', not by 'label'" in done.err
    for key in ("", "  ", "a\nb"):
        with pytest.raises(UsageError):
            new_collection(tmp_path, "bad", tenant_key=key)
