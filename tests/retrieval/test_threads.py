"""One searcher serves many threads, beside a writer, and takes the caller's own models."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import numpy as np
import numpy.typing as npt
import pytest
from tests.support.collection_builders import HashEncoder, new_collection, prose, take_in, write_files

from ragcli.collection import Collection
from ragcli.errors import CollectionError
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import Searcher

QUESTIONS = [prose(number, 4) for number in range(50)]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """Forty documents of random words."""
    root = tmp_path_factory.mktemp("threads")
    made = new_collection(root)
    take_in(made, write_files(root / "in", {f"{number}.txt": prose(number, 60) for number in range(40)}))
    return made


def answers(searcher: Searcher, question: str) -> list[tuple[str, float]]:
    return [(hit.chunk.chunk_id, hit.score) for hit in searcher.query(QueryRequest(question)).hits]


def test_eight_threads_get_what_one_gets_while_documents_come(collection: Collection, tmp_path: Path) -> None:
    encoder = HashEncoder()
    with Searcher([collection], encoder=encoder) as searcher:
        alone = [answers(searcher, question) for question in QUESTIONS]
        done = Event()

        def write() -> None:
            number = 0
            while not done.is_set() and number < 20:
                take_in(collection, write_files(tmp_path / f"{number}", {f"new{number}.txt": "unrelated " * 40}))
                number += 1

        with ThreadPoolExecutor(8) as threads:
            # Each thread opens the state that is there now.
            list(threads.map(lambda _: len(searcher.readers), range(64)))
            writer = Thread(target=write)
            writer.start()
            try:
                together = list(
                    threads.map(lambda _: [answers(searcher, question) for question in QUESTIONS], range(8))
                )
            finally:
                done.set()
                writer.join()
    for found in together:
        assert [[chunk for chunk, _ in each] for each in found] == [[chunk for chunk, _ in each] for each in alone]


class Longest:
    """A reranker of the caller's own."""

    name = "longest first"

    def score(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:  # noqa: ARG002
        return np.asarray([len(text) for text in texts], np.float32)


def test_a_callers_reranker_is_what_auto_chooses(collection: Collection) -> None:
    with Searcher([collection], encoder=HashEncoder(), reranker=Longest()) as searcher:
        result = searcher.query(QueryRequest(QUESTIONS[0], pipeline="classic"))
    assert result.reranker == "longest first"
    lengths = [len(hit.chunk.text) for hit in result.hits]
    assert lengths == sorted(lengths, reverse=True)


def test_an_encoder_that_did_not_make_the_vectors_is_refused(collection: Collection) -> None:
    other = HashEncoder()
    other.fingerprint = "0" * 64
    with Searcher([collection], encoder=other) as searcher, pytest.raises(CollectionError, match="another model"):
        searcher.query(QueryRequest("wormhole", pipeline="dense"))
