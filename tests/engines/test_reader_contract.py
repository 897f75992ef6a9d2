"""What every engine owes: one suite over the protocol of a reader, and searches that run over each engine alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.collection_builders import take_in_records
from tests.support.memory_engine import MemoryReader
from tests.support.tiny_models import tiny_encoder

from ragcli.collection import Collection
from ragcli.engines import CollectionReader, open_reader
from ragcli.errors import CollectionError, MissingCollection
from ragcli.filters import parse_where
from ragcli.grounding.ask import ask
from ragcli.grounding.judge_registry import open_judge
from ragcli.index.late_interaction import max_sim
from ragcli.models import Encoder, load_encoder
from ragcli.retrieval.exact_search import GrepRequest, count, grep
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import Searcher
from ragcli.text.text_folding import squeeze
from ragcli.types import CollectionSettings, Document

TEXTS: Mapping[str, tuple[str, str, int]] = {
    "raft": ("Consensus", "A leader is elected for each term by a majority of the servers in the cluster.", 2014),
    "paxos": ("Consensus", "Proposers and acceptors agree on one value although messages are lost.", 1998),
    "hyperloglog": ("Sketches", "A sketch estimates how many distinct values a stream has in little memory.", 2007),
    "wormhole": ("Gravity", "Negative energy holds the throat of a traversable wormhole open.", 1988),
    "short": ("Consensus", "An empty log.", 1900),
    "long": ("Gravity", "The wormhole's throat has a geodesic. " * 8 + "A stream of values may enter it.", 1995),
}
Make = Callable[[CollectionSettings], CollectionReader]


@dataclass(frozen=True)
class Question:
    """A query of a stage, with all that there can be to it."""

    text: str
    vector: Any = None
    title_weight: float = 0.0
    expansion: Sequence[tuple[str, float]] = ()


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_encoder(tmp_path_factory.mktemp("models") / "encoder"))


@cache
def loaded(folder: str) -> Encoder:
    return load_encoder(folder)


def whole_text(id_: str) -> str:
    """The text of a record, as JSONL records are read."""
    return f"{TEXTS[id_][0]}\n\n{TEXTS[id_][1]}"


@contextmanager
def local_engine(tmp_path: Path, settings: CollectionSettings, encoder: Encoder | None) -> Iterator[CollectionReader]:
    collection = Collection.create(tmp_path / "data", "notes", settings)
    first = {"id": "short", "title": "Consensus", "text": "A leader, a throat and a stream of values.", "year": 1900}
    records = [{"id": id_, "title": title, "text": text, "year": year} for id_, (title, text, year) in TEXTS.items()]
    take_in_records(collection, first, encoder=encoder)  # type: ignore[arg-type]
    # One document is read anew with another text, so that the arrays have a dead row.
    take_in_records(collection, *records, encoder=encoder)  # type: ignore[arg-type]
    with open_reader(collection) as reader:
        yield reader


@contextmanager
def memory_engine(tmp_path: Path, settings: CollectionSettings, encoder: Encoder | None) -> Iterator[CollectionReader]:
    documents = {
        id_: Document(whole_text(id_), "jsonl", record_id=id_, title=title, metadata={"year": year})
        for id_, (title, _, year) in TEXTS.items()
    }
    with MemoryReader("notes", documents, settings, encoder) as reader:
        yield reader


ENGINES = {"local": local_engine, "memory": memory_engine}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reader(engine: str, tmp_path: Path, encoder_folder: str) -> Iterator[CollectionReader]:
    settings = CollectionSettings(encoder=encoder_folder, chunk_size=120, overlap=20)
    with ENGINES[engine](tmp_path, settings, loaded(encoder_folder)) as found:
        yield found


@pytest.fixture
def bare(engine: str, tmp_path: Path) -> Iterator[CollectionReader]:
    with ENGINES[engine](tmp_path, CollectionSettings(encoder="none"), None) as found:
        yield found


def numbers_of(reader: CollectionReader) -> list[int]:
    rows = [row for row in reader.documents() if row.chunks]
    return sorted(chunk.number for row in rows for chunk in reader.document_chunks(row.document_id))


def sources(reader: CollectionReader, numbers: Sequence[int]) -> list[str]:
    return [chunk.document_id for chunk in reader.chunks(list(numbers)).values()]


def asked(text: str, encoder_folder: str, **more: Any) -> Question:
    return Question(text, loaded(encoder_folder).encode([text])[0], **more)


def test_the_counts_are_those_of_the_live_chunks(reader: CollectionReader, encoder_folder: str) -> None:
    numbers = numbers_of(reader)
    assert reader.name == "notes"
    assert reader.chunk_count == len(numbers) > len(TEXTS)
    assert reader.dimension == loaded(encoder_folder).dimension
    assert reader.fingerprint == loaded(encoder_folder).fingerprint
    assert reader.has_token_vectors
    assert reader.live([*numbers, 10_000, 0]).tolist() == numbers


@pytest.mark.parametrize("stage", ["bm25", "tfidf", "dense"])
def test_a_stage_ranks_live_chunks_by_its_scores(reader: CollectionReader, encoder_folder: str, stage: Any) -> None:
    question = asked("a throat of a stream of values", encoder_folder)
    numbers, scores = reader.rank(stage, question, 100)
    assert numbers.dtype == np.int64
    assert scores.dtype == np.float64
    assert {*numbers.tolist()} <= {*numbers_of(reader)}
    assert len({*numbers.tolist()}) == len(numbers)
    places = list(zip((-scores).tolist(), numbers.tolist(), strict=True))
    assert places == sorted(places)
    np.testing.assert_allclose(reader.scores(stage, question, numbers), scores, rtol=1e-5, atol=1e-6)
    first, few = reader.rank(stage, question, 2)
    assert first.tolist() == numbers[:2].tolist()
    np.testing.assert_allclose(few, scores[:2], rtol=1e-5, atol=1e-6)


def test_bm25_finds_the_chunks_with_a_term_and_no_others(reader: CollectionReader, encoder_folder: str) -> None:
    numbers, scores = reader.rank("bm25", asked("throats", encoder_folder), 100)
    assert {*sources(reader, numbers.tolist())} == {"wormhole", "long"}
    assert (scores > 0).all()
    others = sorted({*numbers_of(reader)} - {*numbers.tolist()})
    assert reader.scores("bm25", asked("throats", encoder_folder), others).tolist() == [0.0] * len(others)


def test_titles_count_as_much_as_they_are_told_to(reader: CollectionReader, encoder_folder: str) -> None:
    # The text of a record begins with its title, so the first chunks have it without being told to.
    in_texts, scores = reader.rank("bm25", asked("gravity", encoder_folder), 20)
    assert {chunk.ordinal for chunk in reader.chunks(in_texts.tolist()).values()} == {0}
    in_titles, more = reader.rank("bm25", asked("gravity", encoder_folder, title_weight=0.5), 20)
    assert {*in_titles.tolist()} == {
        chunk.number for id_ in ("wormhole", "long") for chunk in reader.document_chunks(id_)
    }
    assert more[0] > scores[0]


def test_words_of_an_expansion_count_by_their_weight(reader: CollectionReader, encoder_folder: str) -> None:
    plain = reader.rank("bm25", asked("leader", encoder_folder), 10)[0]
    wider = asked("leader", encoder_folder, expansion=(("wormhole", 0.1),))
    numbers, _ = reader.rank("bm25", wider, 20)
    assert sources(reader, plain.tolist()) == ["raft"]
    assert sources(reader, numbers.tolist())[0] == "raft"
    assert {*sources(reader, numbers.tolist())} == {"raft", "wormhole", "long"}
    heavy = asked("leader", encoder_folder, expansion=(("wormhole", 50.0),))
    assert sources(reader, reader.rank("bm25", heavy, 20)[0].tolist())[0] != "raft"


def test_dense_scores_are_inner_products_of_vectors(reader: CollectionReader, encoder_folder: str) -> None:
    question = asked("wormhole", encoder_folder)
    numbers = numbers_of(reader)
    vectors = reader.vectors(numbers)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-3)
    np.testing.assert_allclose(reader.scores("dense", question, numbers), vectors @ question.vector, atol=1e-6)
    assert {*reader.rank("dense", question, 100)[0].tolist()} == {*numbers}
    assert reader.vectors([]).shape == (0, reader.dimension)


def test_tfidf_that_was_never_fitted_finds_nothing(reader: CollectionReader, encoder_folder: str) -> None:
    question = asked("negative energy", encoder_folder)
    numbers, _ = reader.rank("tfidf", question, 10)
    scores = reader.scores("tfidf", question, numbers_of(reader))
    assert np.isnan(scores).all() == (not len(numbers))
    assert np.isnan(scores).all() or not np.isnan(scores).any()


@pytest.mark.parametrize("stage", ["bm25", "tfidf", "dense"])
@pytest.mark.parametrize("where", ["year < 2000", "year = 1995 or year = 2007", "year > 3000", "title = 'x'"])
def test_a_filter_keeps_the_scores_and_the_order(
    reader: CollectionReader, encoder_folder: str, stage: Any, where: str
) -> None:
    question, condition = asked("a throat of a stream of values", encoder_folder), parse_where(where)
    meeting = {row.document_id for row in reader.documents(condition)}
    everything, scores = reader.rank(stage, question, 100)
    kept = [at for at, source in enumerate(sources(reader, everything.tolist())) if source in meeting]
    reader.prepare(condition)
    numbers, among = reader.rank(stage, question, 100, where=condition)
    assert numbers.tolist() == everything[kept].tolist()
    np.testing.assert_allclose(among, scores[kept], rtol=1e-5, atol=1e-6)
    others = [each for each in numbers_of(reader) if each not in numbers.tolist()]
    # What the last ranking left out has a score all the same.
    np.testing.assert_allclose(
        reader.scores(stage, question, others),
        [reader.scores(stage, question, [each])[0] for each in others],
        atol=1e-5,
    )


@pytest.mark.parametrize("stage", ["bm25", "dense"])
def test_chunks_that_are_excluded_make_room_for_the_next(
    reader: CollectionReader, encoder_folder: str, stage: Any
) -> None:
    question = asked("a throat of a stream of values", encoder_folder)
    everything = reader.rank(stage, question, 100)[0].tolist()
    numbers = reader.rank(stage, question, 2, exclude=frozenset(everything[:1]))[0].tolist()
    assert numbers == everything[1:3]


def test_token_bits_are_the_signs_of_the_encoders_tokens(reader: CollectionReader, encoder_folder: str) -> None:
    model, numbers = loaded(encoder_folder), numbers_of(reader)[::-1]
    bits, counts = reader.token_bits(numbers)
    assert len(bits) == counts.sum()
    assert bits.shape[1] == -(-reader.dimension // 8)
    query = model.encode_tokens(["negative energy"])[0]
    whole = max_sim(query.tokens, np.ones(len(query.tokens), np.float32), bits, counts).whole
    stops = np.cumsum(counts)
    for at, (stop, size) in enumerate(zip(stops.tolist(), counts.tolist(), strict=True)):
        signs = np.unpackbits(bits[stop - size : stop], axis=1)[:, : reader.dimension] * 2.0 - 1.0
        expected = (signs @ query.tokens.T / np.sqrt(reader.dimension)).max(axis=0).sum()
        assert whole[at] == pytest.approx(expected, abs=0.05)
    alone, size = reader.token_bits(numbers[1:2])
    assert size.tolist() == counts[1:2].tolist()
    assert (alone == bits[stops[0] : stops[1]]).all()


def test_a_sample_is_of_live_chunks_at_even_distances(reader: CollectionReader) -> None:
    numbers = numbers_of(reader)
    assert reader.sample(1000).tolist() == numbers
    assert reader.sample(2).tolist() == [numbers[0], numbers[-1]]
    assert reader.sample(0).tolist() == []


def test_terms_are_counted_in_chunks(reader: CollectionReader) -> None:
    numbers = numbers_of(reader)
    terms = reader.analyze("The wormholes, the leader and an unheard-of thing")
    assert len(terms) == len({*terms})
    there = reader.term_presence(terms, numbers)
    assert there.shape == (len(numbers), len(terms))
    # Chunks that were deleted of late may count.
    assert (reader.document_frequency(terms) >= there.sum(axis=0)).all()
    (wormhole,) = reader.analyze("wormhole")
    found = np.asarray(numbers)[there[:, terms.index(wormhole)]].tolist()
    assert {*sources(reader, found)} == {"wormhole", "long"}
    assert reader.document_frequency([]).tolist() == []
    assert reader.term_presence([], numbers).shape == (len(numbers), 0)


def test_word_pieces_are_counted_in_chunks(reader: CollectionReader, encoder_folder: str) -> None:
    pieces = loaded(encoder_folder).encode_tokens(["wormhole"])[0].token_ids
    counts = reader.token_frequency(pieces)
    assert counts.shape == pieces.shape
    assert (counts <= reader.chunk_count).all()
    assert counts.max() >= 2


def test_chunks_come_with_what_they_are_cited_by(reader: CollectionReader) -> None:
    numbers = numbers_of(reader)[::-1]
    chunks = reader.chunks(numbers)
    assert list(chunks) == numbers
    assert {chunk.title for chunk in chunks.values()} == {title for title, _, _ in TEXTS.values()}
    assert {chunk.collection for chunk in chunks.values()} == {"notes"}
    owners = reader.document_numbers(numbers)
    assert {owners[number] for number in numbers} == {row.number for row in reader.documents() if row.chunks}
    place = reader.provenance(numbers[:1])[numbers[0]]
    row = reader.document(chunks[numbers[0]].document_id)
    assert place.piped
    assert (numbers[0], place.start, place.stop) in reader.same_text(place.text, row.characters)
    assert reader.same_text(place.text, row.characters + 1) == []


def test_documents_are_found_by_what_they_are_called(reader: CollectionReader) -> None:
    rows = {row.document_id: row for row in reader.documents() if row.chunks}
    assert {*rows} == {*TEXTS}
    assert reader.document("raft").metadata["year"] == 2014
    with pytest.raises(MissingCollection):
        reader.document("nothing")
    chunks = reader.document_chunks("long")
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert len(chunks) > 3
    assert reader.find_chunk(chunks[1].chunk_id) == chunks[1]
    assert reader.find_chunk("long:999") is None
    assert reader.find_chunk("no such thing") is None
    assert reader.neighbours(chunks[2], 1) == chunks[1:4]
    assert reader.page_of(chunks[0], 0) is None


def test_whole_texts_can_be_read_under_a_filter(reader: CollectionReader) -> None:
    texts = {text.document_id: text for text in reader.document_texts() if text.text.strip()}
    assert {id_: text.text for id_, text in texts.items()} == {id_: whole_text(id_) for id_ in TEXTS}
    found = {text.document_id for text in reader.document_texts(squeeze("Negative Energy"))}
    assert "wormhole" in found
    old = {text.document_id for text in reader.document_texts(None, parse_where("year < 1990"))}
    assert old == {"wormhole", "short"}
    for number, text in texts.items():
        for at, chunk in enumerate(reader.document_chunks(number)):
            assert (text.verified_chunk(at).start, text.verified_chunk(at).end) == (chunk.start, chunk.end)


def test_keys_of_metadata_are_told(reader: CollectionReader) -> None:
    unknown, known = reader.unknown_keys(parse_where("yaer = 2014 and year = 2014"))
    assert unknown == ("yaer",)
    assert "year" in known
    assert reader.unknown_keys(parse_where("year = 2014")) == ((), ())
    (year,) = [field for field in reader.fields() if field.key == "year"]
    assert (year.documents, year.types) == (len(TEXTS), ("number",))


def test_a_stage_says_how_much_it_reads(reader: CollectionReader) -> None:
    assert {*reader.structure_bytes()} == {"bm25", "tfidf", "dense", "late"}


def test_without_an_encoder_there_are_words_alone(bare: CollectionReader) -> None:
    assert (bare.dimension, bare.has_token_vectors) == (0, False)
    numbers, _ = bare.rank("bm25", Question("wormhole throat"), 5)
    assert sources(bare, numbers.tolist())[0] in ("wormhole", "long")
    assert bare.token_frequency([1, 2]).tolist() == [0, 0]
    with Searcher([bare]) as searcher:
        assert searcher.query(QueryRequest("wormhole throat", pipeline="bm25", top=1)).hits[0].chunk.title == "Gravity"


# Which engine reads a collection.

PLUGIN = """
from ragcli.engines.local_reader import LocalReader

class Loud(LocalReader):
    def analyze(self, text):
        return [term.upper() for term in super().analyze(text)]
"""


def test_an_installed_package_may_bring_the_engine_that_the_settings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = CollectionSettings(encoder="none", search_engine="loud")
    collection = Collection.create(tmp_path / "data", "notes", settings)
    with pytest.raises(CollectionError, match="engine 'loud', which is not installed"):
        open_reader(collection)
    site = tmp_path / "site"
    about = site / "loud_engine-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: loud-engine\nVersion: 1.0\n")
    points = "[ragcli.engines]\nloud = loud_engine:Loud\nbroken = loud_engine:Quiet\n"
    (about / "entry_points.txt").write_text(points)
    (site / "loud_engine.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(site)
    with open_reader(collection) as reader:
        assert reader.analyze("wormholes") == ["WORMHOL"]
    broken = Collection.create(tmp_path / "data", "more", CollectionSettings(encoder="none", search_engine="broken"))
    with pytest.raises(CollectionError, match="'broken' of loud-engine, which cannot be loaded"):
        open_reader(broken)


# Searches over any engine, by the same functions that the commands call.


def test_a_query_finds_by_words_and_by_vectors(reader: CollectionReader) -> None:
    with Searcher([reader]) as searcher:
        for pipeline in ("hybrid", "bm25", "dense"):
            result = searcher.query(QueryRequest("what holds the throat of a wormhole open", pipeline=pipeline, top=3))
            assert len(result.hits) == 3
            assert result.hits[0].chunk.document_id in ("wormhole", "long")
        assert result.hits[0].scores["dense"] is not None


def test_a_query_filters_groups_and_diversifies(reader: CollectionReader) -> None:
    with Searcher([reader]) as searcher:
        old = searcher.query(QueryRequest("values of a stream", where=parse_where("year < 2000"), top=10)).hits
        assert {hit.chunk.document_id for hit in old} <= {"paxos", "wormhole", "long", "short"}
        grouped = searcher.query(QueryRequest("throat of a wormhole", group=True, top=3)).hits
        assert len({hit.chunk.document_id for hit in grouped}) == len(grouped) == 3
        diverse = searcher.query(QueryRequest("throat of a wormhole", diversity=0.5, top=4)).hits
        assert all(hit.scores["mmr"] is not None for hit in diverse)
        alike = searcher.query(QueryRequest("", like="wormhole", top=2)).hits
        assert "wormhole" not in {hit.chunk.document_id for hit in alike}


def test_two_engines_are_searched_as_one(tmp_path: Path, encoder_folder: str) -> None:
    model = loaded(encoder_folder)
    settings = CollectionSettings(encoder=encoder_folder, chunk_size=120, overlap=20)
    with local_engine(tmp_path, settings, model) as one, memory_engine(tmp_path, settings, model) as other:
        other.name = "more"  # type: ignore[misc]
        with Searcher([one, other]) as searcher:
            both = searcher.query(QueryRequest("negative energy", identity="none", keep_duplicates=True, top=4)).hits
        with Searcher([one]) as searcher:
            alone = searcher.query(QueryRequest("negative energy", top=1)).hits
    assert [hit.chunk.document_id for hit in both[:2]] == ["wormhole", "wormhole"]
    assert alone[0].scores["dense"] == pytest.approx(both[0].scores["dense"], abs=1e-4)


def test_the_gate_and_grep_read_any_engine(reader: CollectionReader) -> None:
    with Searcher([reader]) as searcher:
        found = ask(
            searcher, QueryRequest("what holds the throat of a wormhole open"), judge=open_judge("calibrated", ())
        )
    assert 0.0 <= found.decision.score <= 1.0
    assert found.hits
    (hit, *_) = grep([reader], GrepRequest("negative  ENERGY"))
    assert (hit.document_id, hit.match) == ("wormhole", "Negative energy")
    assert {each.source for each in count([reader], GrepRequest("wormhole"))} >= {"long"}
