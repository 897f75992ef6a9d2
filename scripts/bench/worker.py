"""What `run` measures inside a living process, one job a call; each prints one line of JSON.

worker.py warm DATA_DIR COLLECTION BEIR_DIR      questions through the Python API
worker.py warm-reference REFERENCE INDEX BEIR_DIR the same through the reference
worker.py embed BEIR_DIR REFERENCE CHUNKS         chunks a second at ingest
worker.py embed-reference BEIR_DIR REFERENCE CHUNKS
worker.py parse PAPERS                            pages a second by ragcli's workers
worker.py parse-floor PAPERS                      what PDFium takes by itself
worker.py parse-reference PAPERS                  the same by pypdf, over a part
worker.py paper FILE                              reading and embedding one paper
worker.py quality DATA_DIR COLLECTION BEIR_DIR INDEX   nDCG@10 of the vectors alone, ours and the reference's
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def questions(beir: Path) -> dict[str, str]:
    """The questions of a BEIR folder that its test set judges, by id."""
    judged = {line.split("\t")[0] for line in (beir / "qrels" / "test.tsv").read_text("utf-8").splitlines()[1:]}
    lines = (beir / "queries.jsonl").read_text("utf-8").splitlines()
    return {each["_id"]: each["text"] for each in map(json.loads, lines) if each["_id"] in judged}


def reference(path: Path) -> ModuleType:
    """The reference pipeline as a module."""
    spec = importlib.util.spec_from_file_location("reference", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def spread(seconds: list[float]) -> dict[str, float]:
    """Median and 95th percentile, and the peak of memory so far in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"p50": statistics.median(seconds), "p95": statistics.quantiles(seconds, n=20)[-1], "peak": peak}


def timed(ask: Callable[[str], object], asked: list[str], unmeasured: int) -> list[float]:
    """Seconds of each question but the first few, which warm things up."""
    seconds = []
    for text in asked:
        started = time.perf_counter()
        ask(text)
        seconds.append(time.perf_counter() - started)
    return seconds[unmeasured:]


def warm(data_dir: str, name: str, beir: str) -> dict[str, float]:
    """Questions to one Searcher, the median of each stage, and what no way of searching everything can do without.

    `floor` is the encoder's pass over the question, and the time in which this machine's memory gives all vectors
    once and the pool's token bits.
    """
    import numpy as np

    from ragcli.collection import Collection
    from ragcli.retrieval.request import QueryRequest, QueryResult
    from ragcli.retrieval.searcher import Searcher

    results: list[QueryResult] = []
    asked = list(questions(Path(beir)).values())[:205]
    collection = Collection.open(Path(data_dir), name)
    with Searcher([collection]) as searcher:
        seconds = timed(lambda text: results.append(searcher.query(QueryRequest(text, reranker="late"))), asked, 5)
    stages: dict[str, list[float]] = {}
    for result in results[5:]:
        for stage in result.stages:
            stages.setdefault(stage.stage, []).append(stage.seconds)
    medians = {stage: statistics.median(values) for stage, values in stages.items()}
    with collection.snapshot() as snapshot:
        rows = np.arange(min(75, len(snapshot.vectors)))
        tokens = snapshot.tokens.gather(rows)[0].nbytes if snapshot.tokens is not None else 0
        bytes_read = snapshot.vectors.nbytes + tokens
    floor = medians["encode"] + bytes_read / memory_rate()
    return spread(seconds) | {"floor": floor} | {f"stage_{stage}": value for stage, value in medians.items()}


def memory_rate() -> float:
    """Bytes a second that one core reads from memory: the best of some sums over 256 MB."""
    import numpy as np

    much = np.ones(1 << 25, np.float64)
    best = float("inf")
    for _ in range(4):
        started = time.perf_counter()
        much.max()
        best = min(best, time.perf_counter() - started)
    return much.nbytes / best


def warm_reference(path: str, index: str, beir: str) -> dict[str, float]:
    """Questions to the reference, its models loaded once."""
    import sentence_transformers

    module: Any = reference(Path(path))
    for name in ("SentenceTransformer", "CrossEncoder"):
        setattr(sentence_transformers, name, functools.cache(getattr(sentence_transformers, name)))
    asked = list(questions(Path(beir)).values())[:8]
    return spread(timed(lambda text: module.query(text, Path(index)), asked, 2))


def chunks(beir: Path, path: Path, count: int) -> list[str]:
    """The first chunks of a corpus as the reference cuts them."""
    module: Any = reference(path)

    def all_chunks() -> Iterator[str]:
        with (beir / "corpus.jsonl").open(encoding="utf-8") as lines:
            for record in map(json.loads, lines):
                yield from module.chunks_of(f"{record['title']}. {record['text']}")

    return [text for text, _ in zip(all_chunks(), range(count), strict=False)]


def embed(beir: str, path: str, count: str) -> dict[str, float]:
    """The embedding stage of an ingest: vectors and token vectors' bits, a batch at a time."""
    from ragcli.collection.store.chunk_arrays import row_from_encoding
    from ragcli.collection.write.embedding_batches import EMBED_BATCH
    from ragcli.models import DEFAULT_ENCODER, load_encoder

    texts = chunks(Path(beir), Path(path), int(count))
    encoder = load_encoder(DEFAULT_ENCODER)
    encoder.encode(texts[:8])
    started = time.perf_counter()
    for at in range(0, len(texts), EMBED_BATCH):
        _ = [row_from_encoding(each) for each in encoder.encode_tokens(texts[at : at + EMBED_BATCH])]
    return {"per_second": len(texts) / (time.perf_counter() - started)}


def embed_reference(beir: str, path: str, count: str) -> dict[str, float]:
    """The reference's embedding, as its `build` does it."""
    from sentence_transformers import SentenceTransformer

    module: Any = reference(Path(path))
    texts = chunks(Path(beir), Path(path), int(count))
    model = SentenceTransformer(module.model_dir(), device="cpu")
    model.encode(texts[:8])
    started = time.perf_counter()
    model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    return {"per_second": len(texts) / (time.perf_counter() - started)}


def parse(folder: str) -> dict[str, float]:
    """Pages of PDFs, read by worker processes into clean text with pages and headings."""
    from ragcli.documents.discovery import discover
    from ragcli.documents.parse_options import ReadOptions
    from ragcli.documents.workers.parallel_parsing import read_files
    from ragcli.types import Document

    paths = [file.path for file in discover([Path(folder)], include=["*.pdf"]).files]
    started = time.perf_counter()
    documents = [item for each in read_files(paths, ReadOptions()) for item in each.items if isinstance(item, Document)]
    seconds = time.perf_counter() - started
    pages = sum(len(document.pages) for document in documents)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    rates = {"per_second": pages / seconds, "per_cpu_second": pages / (used.ru_utime + used.ru_stime)}
    return rates | {"pages": pages, "seconds": seconds}


def parse_floor(folder: str) -> dict[str, float]:
    """Pages a second of CPU time that PDFium takes by itself to load each page and give its bare text."""
    import pypdfium2

    pages, seconds = 0, 0.0
    for path in sorted(Path(folder).rglob("*.pdf")):
        data, times = path.read_bytes(), []
        for _ in range(3):
            started = time.process_time()
            document = pypdfium2.PdfDocument(data)
            for page in document:
                text = page.get_textpage()
                text.get_text_range()
                text.close()
                page.close()
            times.append(time.process_time() - started)
            count = len(document)
            document.close()
        pages, seconds = pages + count, seconds + min(times)
    return {"per_cpu_second": pages / seconds}


def paper(path: str) -> dict[str, float]:
    """What a paper costs by itself: it is read, cut and embedded as at ingest, and nothing is kept."""
    from ragcli.collection.store.chunk_arrays import row_from_encoding
    from ragcli.collection.write.prepared_documents import embedding_inputs
    from ragcli.documents import chunk_document
    from ragcli.documents.parse_options import ReadOptions
    from ragcli.documents.workers.parallel_parsing import read_files
    from ragcli.models import DEFAULT_ENCODER, load_encoder
    from ragcli.types import CollectionSettings, Document

    (read,) = read_files([Path(path)], ReadOptions())
    (document,) = (item for item in read.items if isinstance(item, Document))
    inputs = list(embedding_inputs(document, chunk_document(document), CollectionSettings()))
    rows = [row_from_encoding(each) for each in load_encoder(DEFAULT_ENCODER).encode_tokens(inputs)]
    return {"chunks": len(rows)}


def parse_reference(folder: str) -> dict[str, float]:
    """The same by pypdf in one process, page after page, for ten seconds."""
    from pypdf import PdfReader

    started, pages = time.perf_counter(), 0
    for path in sorted(Path(folder).rglob("*.pdf")):
        for page in PdfReader(path).pages:
            page.extract_text()
            pages += 1
            if time.perf_counter() - started > 10:
                return {"per_second": pages / (time.perf_counter() - started)}
    return {"per_second": pages / (time.perf_counter() - started)}


def quality(data_dir: str, name: str, beir: str, index: str) -> dict[str, float]:
    """nDCG@10 of the best chunk's cosine per document."""
    import ir_measures
    import numpy as np
    from sentence_transformers import SentenceTransformer

    from ragcli.collection import Collection
    from ragcli.models import DEFAULT_ENCODER, load_encoder
    from ragcli.models.model_lookup import find_model

    asked = questions(Path(beir))
    rows = [line.split("\t") for line in (Path(beir) / "qrels" / "test.tsv").read_text("utf-8").splitlines()[1:]]
    qrels = [ir_measures.Qrel(query, document, int(grade)) for query, document, grade in rows]

    def score(queries: Any, vectors: Any, sources: list[str]) -> float:
        run = []
        for query, vector in zip(asked, queries, strict=True):
            best: dict[str, float] = {}
            scores = vectors @ vector
            for at in np.argsort(-scores)[:100].tolist():
                best.setdefault(sources[at], float(scores[at]))
            run += [ir_measures.ScoredDoc(query, source, value) for source, value in best.items()]
        return float(ir_measures.calc_aggregate([ir_measures.nDCG @ 10], qrels, run)[ir_measures.nDCG @ 10])

    with Collection.open(Path(data_dir), name).snapshot() as snapshot:
        stored = snapshot.chunks(snapshot.row_numbers.tolist())
        ours = score(
            load_encoder(DEFAULT_ENCODER).encode(list(asked.values())),
            snapshot.vectors,
            [chunk.document_id for chunk in stored.values()],
        )
    found = find_model(DEFAULT_ENCODER)
    if found is None:
        raise SystemExit(f"{DEFAULT_ENCODER} is not on this machine")
    model = SentenceTransformer(str(found.path), device="cpu")
    theirs = score(
        model.encode(list(asked.values()), normalize_embeddings=True),
        np.load(Path(index) / "embeddings.npy"),
        [chunk["source"] for chunk in json.loads((Path(index) / "chunks.json").read_text("utf-8"))],
    )
    return {"ours": ours, "reference": theirs}


JOBS: dict[str, Callable[..., dict[str, float]]] = {
    "warm": warm,
    "warm-reference": warm_reference,
    "embed": embed,
    "embed-reference": embed_reference,
    "parse": parse,
    "parse-floor": parse_floor,
    "parse-reference": parse_reference,
    "paper": paper,
    "quality": quality,
}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
