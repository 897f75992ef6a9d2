"""What `scale` measures inside a process, one job a call, on a synthetic collection; prints one line of JSON.

probe.py words DATA_DIR COLLECTION    a planted question, and a rare word of it
probe.py warm DATA_DIR COLLECTION     time and memory of planted questions, and how many find their answers
probe.py recall DATA_DIR COLLECTION   how much of the exact ten nearest vectors the search finds
probe.py disk DATA_DIR COLLECTION     bytes on the disk by kind
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
from synthetic import ANSWERS, Topic, topics, topics_in
from worker import spread, timed

from ragcli.collection import Collection
from ragcli.index.nearest_neighbours import inner_products, top_k, top_rows_by_signs
from ragcli.models import DEFAULT_ENCODER, load_encoder
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import Searcher

QUESTIONS = 105


def planted(collection: Collection) -> list[Topic]:
    """The questions that were planted in the collection, some of them more than once if they are few."""
    few = topics(topics_in(collection.info().chunks))
    return [few[at % len(few)] for at in range(QUESTIONS)]


def warm(collection: Collection) -> dict[str, float]:
    """Planted questions to one Searcher. `found` is the share of the first ten hits that hold the question's words."""
    shares: list[float] = []
    answers = {topic.question: topic.words[0] for topic in planted(collection)}
    with Searcher([collection]) as searcher:

        def ask(question: str) -> None:
            hits = searcher.query(QueryRequest(question, top=10, reranker="late")).hits
            shares.append(sum(answers[question] in hit.chunk.text for hit in hits) / ANSWERS)

        seconds = timed(ask, [topic.question for topic in planted(collection)], 5)
    return spread(seconds) | {"found": float(np.mean(shares))}


def recall(collection: Collection) -> dict[str, float]:
    """Recall@10 against the exact scan: of planted questions, and of vectors from nowhere, which is harder."""
    encoder = load_encoder(DEFAULT_ENCODER)
    asked = encoder.encode([topic.question for topic in planted(collection)][:50])
    rng = np.random.default_rng(9)
    with collection.snapshot() as snapshot:
        vectors, dead = snapshot.vectors, snapshot.dead
        some = vectors[np.sort(rng.integers(0, len(vectors), 50))]
        noise = rng.standard_normal(some.shape, dtype=np.float32) * some.std()
        others = some * 0.7 + 0.7 * noise
        others /= np.linalg.norm(others, axis=1, keepdims=True)
        found = {}
        for name, queries in (("planted", asked), ("others", others)):
            shares = []
            for query in queries:
                scores = inner_products(vectors, query)
                scores[dead] = np.nan
                exact = top_k(scores, 10)[0]
                # Below the limit the search is exact anyway; this says what the signs would do there too.
                rows, _ = top_rows_by_signs(vectors, snapshot.signs, query, 10, dead)
                shares.append(len({*exact.tolist()} & {*rows.tolist()}) / len(exact))
            found[name] = float(np.mean(shares))
    return found


def disk(collection: Collection) -> dict[str, float]:
    """Bytes by kind. The sieves are part of the store."""
    kinds: dict[str, float] = {"store": 0, "vectors": 0, "tokens": 0, "lexical": 0, "tfidf": 0, "other": 0}
    for path in collection.path.rglob("*"):
        if path.is_file():
            part = path.relative_to(collection.path).parts[0].split(".")[0].split("-")[0]
            kinds[part if part in kinds else "other"] += path.stat().st_size
    with closing(sqlite3.connect(f"file:{collection.path / 'store.db'}?mode=ro", uri=True)) as connection:
        query = "SELECT count(*) * ifnull((SELECT length(blocks) FROM bloom_rows LIMIT 1), 0) FROM bloom_rows"
        (kinds["sieves"],) = connection.execute(query).fetchone()
    return kinds


def words(collection: Collection) -> dict[str, str]:
    """A planted question and a rare word of it."""
    topic = planted(collection)[0]
    return {"question": topic.question, "word": topic.words[0]}


JOBS: dict[str, Callable[[Collection], Mapping[str, float | str]]] = {
    "words": words,
    "warm": warm,
    "recall": recall,
    "disk": disk,
}

if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    print(json.dumps(JOBS[sys.argv[1]](Collection.open(Path(sys.argv[2]), sys.argv[3]))))
