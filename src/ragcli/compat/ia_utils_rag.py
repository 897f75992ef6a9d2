"""The interface of `ia_utils.rag`, implemented by the ragcli library.

Same functions, parameters, defaults and result keys, so that switching is one changed import. What differs: an index
on disk is plain arrays and JSON, never a pickle; where the cross-encoder's weights are not on the machine, the
default reranker is late interaction over the encoder's token vectors, said once in a warning; see the functions for
the rest. For collections on disk, ingest and incremental updates, use `ragcli.Collection`.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from shutil import copytree, rmtree
from typing import TYPE_CHECKING, Any, Final

from ragcli.atomic_files import make_private_folder
from ragcli.errors import CollectionError, InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ragcli.index.tfidf import TfidfReader
    from ragcli.models import Encoder, TextReranker

DEFAULT_EMBEDDING_MODEL: Final = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_CROSS_ENCODER_MODEL: Final = "cross-encoder/ms-marco-MiniLM-L-6-v2"
CHUNK_SIZE_CHARS: Final = 1200
CHUNK_OVERLAP_CHARS: Final = 200
DEFAULT_POOL: Final = 20
RERANKED_CHARS: Final = 1024
_ABOUT: Final = "ragcli-index.json"
_FORMAT: Final = 1
_BATCH: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class RagIndex:
    """An index in memory: `chunks` as {"source", "text"}, and what ranks them.

    `embeddings` is float32 (n, d) with unit rows, or None; `token_frequency` says in how many chunks each word
    piece stands, or None.
    """

    chunks: list[dict[str, str]]
    tfidf: TfidfReader
    embeddings: npt.NDArray[np.float32] | None = None
    token_frequency: npt.NDArray[np.int64] | None = None
    _home: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)


def chunk_text(
    text: str, source: str, chunk_size: int = CHUNK_SIZE_CHARS, overlap: int = CHUNK_OVERLAP_CHARS
) -> list[dict[str, str]]:
    """Plain character windows as {"source", "text"}, stripped, blank ones dropped.

    Raises ValueError when `chunk_size` is not positive or `overlap` is not below it.
    """
    if chunk_size < 1 or not 0 <= overlap < chunk_size:
        raise ValueError(f"overlap ({overlap}) must be at least 0 and less than chunk_size ({chunk_size})")
    # The last window is the first to reach the end: what is left after it would only repeat its overlap.
    starts = range(0, max(1, len(text) - overlap), chunk_size - overlap)
    windows = (text[start : start + chunk_size].strip() for start in starts)
    return [{"source": source, "text": window} for window in windows if window]


def build_index(
    documents: Iterable[tuple[str, str]],
    embedding_model: str = DEFAULT_EMBEDDING_MODEL,
    compute_embeddings: bool = True,
    chunk_size: int = CHUNK_SIZE_CHARS,
    overlap: int = CHUNK_OVERLAP_CHARS,
) -> RagIndex:
    """Chunk (text, source) pairs, fit TF-IDF on the chunks and, unless told not to, embed them.

    Raises ValueError when no chunk comes of it, ModelUnavailable when the embedding model is not to be had.
    """
    from ragcli.index.tfidf import TfidfReader, fit_tfidf

    chunks = [chunk for text, source in documents for chunk in chunk_text(text, source, chunk_size, overlap)]
    if not chunks:
        raise ValueError("there is nothing to index: no document has any text")
    texts = [chunk["text"] for chunk in chunks]
    home = tempfile.TemporaryDirectory(prefix="ragcli-index-")
    folder = Path(home.name) / "tfidf"
    fit_tfidf(folder, range(len(texts)), texts)
    embeddings, frequency = _embed(texts, embedding_model) if compute_embeddings else (None, None)
    return RagIndex(chunks, TfidfReader(folder), embeddings, frequency, home)


def search(
    query: str,
    index: RagIndex,
    top: int = 3,
    rerank: bool = True,
    pool: int = DEFAULT_POOL,
    embedding_model: str = DEFAULT_EMBEDDING_MODEL,
    cross_encoder_model: str = DEFAULT_CROSS_ENCODER_MODEL,
) -> list[dict[str, Any]]:
    """The `top` chunks, best first, as dicts with rank, source, text, score, score_type and cosine.

    With `rerank`, the union of the `pool` best by TF-IDF and the `pool` best by embedding is put in order by the
    reranker (score_type "rerank"); without, TF-IDF cosine is the order (score_type "cosine") and no model loads.
    Of a query longer than 20,000 characters only so many are read.
    """
    import numpy as np

    from ragcli.retrieval.request import MAX_QUESTION_CHARS

    query = query[:MAX_QUESTION_CHARS]
    cosines = index.tfidf.cosines(query, range(len(index.chunks)))
    # Backwards over a stable sort: among equals the later chunk comes first, as users of argsort()[::-1] know it.
    lexical = np.argsort(cosines, kind="stable")[::-1].tolist()
    candidates: list[int] = []
    if rerank:
        candidates = lexical[:pool]
        if index.embeddings is not None:
            vector = _encoder(embedding_model).encode([query])[0]
            dense = np.argsort(index.embeddings @ vector, kind="stable")[::-1][:pool].tolist()
            candidates = sorted({*candidates, *dense})
    if candidates:
        texts = [index.chunks[place]["text"][:RERANKED_CHARS] for place in candidates]
        scores = _rerank(query, texts, index, embedding_model, cross_encoder_model)
        order = np.argsort(scores, kind="stable")[::-1][:top].tolist()
        ranked = [(candidates[place], float(scores[place])) for place in order]
    else:
        ranked = [(place, float(cosines[place])) for place in lexical[:top]]
    return [
        {
            "rank": rank,
            "source": index.chunks[place]["source"],
            "text": index.chunks[place]["text"],
            "score": score,
            "score_type": "rerank" if candidates else "cosine",
            "cosine": float(cosines[place]),
        }
        for rank, (place, score) in enumerate(ranked, 1)
    ]


def search_exact(
    pattern: str, index: RagIndex, regex: bool = False, max_hits: int = 10, context: int = 300
) -> list[dict[str, Any]]:
    """Chunks that hold `pattern`, at most one match each, as source, chunk_index, match, snippet, start and end.

    A literal ignores case; with `regex` the pattern is a regular expression, case-sensitive as written. The last
    hit has `truncated` when `max_hits` was reached. No model is loaded. Raises UsageError for a pattern that is
    empty or no regular expression.
    """
    from ragcli.index.pattern_matching import compile_pattern

    matcher = compile_pattern(pattern, regex=regex)
    hits: list[dict[str, Any]] = []
    for place, chunk in enumerate(index.chunks):
        text = chunk["text"]
        span = next(iter(matcher.find_all(text)), None)
        if span is None:
            continue
        start, end = span
        low, high = max(0, start - context), min(len(text), end + context)
        hits.append(
            {
                "source": chunk["source"],
                "chunk_index": place,
                "match": text[start:end],
                "snippet": ("..." if low > 0 else "") + text[low:high] + ("..." if high < len(text) else ""),
                "start": start,
                "end": end,
            }
        )
        if len(hits) >= max_hits:
            hits[-1]["truncated"] = True
            break
    return hits


def save_index(index: RagIndex, index_dir: str | os.PathLike[str]) -> None:
    """Write the index to a folder: JSON and plain arrays. An index that is already there is replaced."""
    import numpy as np

    folder = Path(index_dir)
    make_private_folder(folder)
    about: dict[str, Any] = {"format": _FORMAT, "chunks": index.chunks}
    # The file that makes the folder an index goes first and comes back last, so that a broken save is no index.
    (folder / _ABOUT).unlink(missing_ok=True)
    staged = folder / "tfidf.new"
    rmtree(staged, ignore_errors=True)
    copytree(index.tfidf.folder, staged)
    rmtree(folder / "tfidf", ignore_errors=True)
    staged.rename(folder / "tfidf")
    for name, array in (("embeddings", index.embeddings), ("token_frequency", index.token_frequency)):
        if array is None:
            (folder / f"{name}.npy").unlink(missing_ok=True)
        else:
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
    temporary = folder / f"{_ABOUT}.new"
    temporary.write_text(json.dumps(about), encoding="utf-8")
    temporary.replace(folder / _ABOUT)


def load_index(index_dir: str | os.PathLike[str]) -> RagIndex:
    """Read an index that `save_index` wrote.

    Raises InputError when there is none, or when it is one of pickles (`ragcli import-index` takes over its
    chunks and embeddings without opening those), CollectionError when it is damaged.
    """
    import numpy as np

    from ragcli.index.tfidf import TfidfReader

    folder = Path(index_dir)
    if not (folder / _ABOUT).is_file():
        if (folder / "chunks.json").is_file():
            raise InputError(
                f"{folder} holds an index of pickles, which ragcli never opens; "
                f"`ragcli import-index {folder} -c NAME` takes over its chunks and embeddings."
            )
        raise InputError(f"There is no index in {folder}; `save_index` writes one.")
    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        chunks = [{"source": str(chunk["source"]), "text": str(chunk["text"])} for chunk in about["chunks"]]
        if about["format"] != _FORMAT:
            raise CollectionError(
                f"The index in {folder} has format {about['format']}, and this ragcli reads {_FORMAT}."
            )
        arrays = [
            np.load(folder / f"{name}.npy", allow_pickle=False) if (folder / f"{name}.npy").exists() else None
            for name in ("embeddings", "token_frequency")
        ]
        tfidf = TfidfReader(folder / "tfidf")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CollectionError(f"The index in {folder} is damaged ({error}); build and save it again.") from error
    if tfidf.size != len(chunks) or (arrays[0] is not None and len(arrays[0]) != len(chunks)):
        raise CollectionError(
            f"The index in {folder} is damaged (its parts differ in length); build and save it again."
        )
    return RagIndex(chunks, tfidf, arrays[0], arrays[1])


def _embed(texts: Sequence[str], model: str) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    import numpy as np

    from ragcli.index.late_interaction import chunk_frequency

    encoder = _encoder(model)
    frequency = np.zeros(encoder.vocabulary_size, np.int64)
    vectors = []
    for start in range(0, len(texts), _BATCH):
        encodings = encoder.encode_tokens(texts[start : start + _BATCH])
        vectors += [encoding.vector for encoding in encodings]
        frequency += chunk_frequency((encoding.token_ids for encoding in encodings), encoder.vocabulary_size)
    return np.stack(vectors).astype(np.float32), frequency


def _rerank(
    query: str, texts: Sequence[str], index: RagIndex, embedding_model: str, cross_encoder_model: str
) -> npt.NDArray[np.float32]:
    from ragcli.models import cross_encoder_available

    if cross_encoder_model == DEFAULT_CROSS_ENCODER_MODEL and not cross_encoder_available(cross_encoder_model):
        warnings.warn(
            f"{cross_encoder_model} is not on this machine; late interaction over {embedding_model} reranks instead. "
            f"`ragcli models pull {cross_encoder_model}` gets it.",
            stacklevel=3,
        )
        return _late(query, texts, index, embedding_model)
    return _cross_encoder(cross_encoder_model).score(query, texts)


def _late(query: str, texts: Sequence[str], index: RagIndex, model: str) -> npt.NDArray[np.float32]:
    import numpy as np

    from ragcli.index.late_interaction import idf_weights
    from ragcli.retrieval.rerank import late_interaction_with_texts

    encoder = _encoder(model)
    question = encoder.encode_tokens([query])[0]
    weights = np.ones(len(question.token_ids), np.float32)
    if index.token_frequency is not None:
        weights = idf_weights(question.token_ids, index.token_frequency, len(index.chunks))
    return late_interaction_with_texts(encoder, question, weights, texts).whole


@lru_cache(maxsize=2)
def _encoder(model: str) -> Encoder:
    # Loading costs more than a search, and a caller searches many times.
    from ragcli.models import load_encoder

    return load_encoder(model)


@lru_cache(maxsize=2)
def _cross_encoder(model: str) -> TextReranker:
    from ragcli.models import load_reranker

    return load_reranker(model)
