"""Makes collections of any size to measure on, through the code that makes real ones.

Texts are pseudo-words drawn by Zipf's law, so that postings are as long and as short as those of a language. Vectors
are noise around topics, with a spectrum that falls as an encoder's does. Into both, answers are planted: some
documents hold a sentence with the rare words of a question, and the vectors of their chunks lie near that question's.
Questions are encoded by the real model, so that `ragcli query` finds the planted answers; nothing else is encoded,
which is why a million chunks take minutes and not hours. Everything but the encoder is ragcli's own: reader,
chunking, store, arrays, indexes.

    scripts/bench/synthetic --chunks 100000 --data-dir DIR -c NAME
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ragcli.collection import Collection, Committed, IngestEvent, ingest_jsonl
from ragcli.models import DEFAULT_ENCODER, Encoder, Encoding, load_encoder
from ragcli.types import CollectionSettings

FloatArray = npt.NDArray[np.float32]

WORDS = 200_000
ZIPF = 1.05
CHARACTERS = 8_200
"""Characters of a document: about eight chunks."""

ANSWERS = 10
TOPICS = 200
CENTRES = 2_000
TOKENS = 64
"""Token vectors of a chunk. A real chunk has four times as many, and a million of those are 12 GB."""

_ONSETS = "b c d f g h k l m n p r s t v w z br st tr pl gr"
_VOWELS = "a e i o u ai ou"
_SYLLABLES = [onset + vowel for onset in _ONSETS.split(" ") for vowel in _VOWELS.split(" ")]


def vocabulary(size: int) -> list[str]:
    """`size` different words, short ones first."""
    base = len(_SYLLABLES)
    words = []
    for number in range(size):
        word, rest = _SYLLABLES[number % base], number // base
        while rest:
            word, rest = word + _SYLLABLES[(rest - 1) % base], (rest - 1) // base
        words.append(word)
    return words


@dataclass(frozen=True, slots=True)
class Topic:
    """A planted question, the rare words in it, and the sentence of its answers."""

    question: str
    words: tuple[str, str, str]

    @property
    def answer(self) -> str:
        """A sentence that holds what was asked for."""
        first, second, third = self.words
        return f"It was seen that {first} {second} makes the {third} grow."


def topics(count: int) -> list[Topic]:
    """Planted questions; their words end as no other word does."""
    made = []
    for number in range(count):
        first, second, third = (f"{name}{_SYLLABLES[number % 150]}{number}x" for name in ("quor", "vext", "zumb"))
        made.append(Topic(f"what does {first} {second} do to the {third}", (first, second, third)))
    return made


def topics_in(chunks: int) -> int:
    """How many questions are planted in a collection of about so many chunks: half of its documents hold an answer."""
    return min(TOPICS, max(1, chunks // 8 // ANSWERS // 2))


def records(chunks: int, planted: Sequence[Topic], seed: int = 1) -> Iterator[bytes]:
    """JSONL lines of documents that are cut into about so many chunks, the answers spread evenly among them."""
    rng = np.random.default_rng(seed)
    words = np.array(vocabulary(WORDS), dtype=object)
    weights = 1 / np.arange(1, WORDS + 1) ** ZIPF
    # Every word as often as it comes in four million words, so that drawing is looking up.
    urn = np.repeat(words, np.ceil(weights * (1 << 22) / weights.sum()).astype(np.int64))
    mean = float(np.mean([len(word) for word in urn[rng.integers(0, len(urn), 10_000)]])) + 1
    count, documents = int(CHARACTERS / mean), max(1, chunks // 8)
    every = max(1, documents // max(1, len(planted) * ANSWERS))
    for number in range(documents):
        drawn = urn[rng.integers(0, len(urn), count)].tolist()
        sentences = [" ".join(drawn[at : at + 18]).capitalize() + "." for at in range(0, count, 18)]
        turn = number // every
        if number % every == 0 and turn < len(planted) * ANSWERS:
            sentences.insert(int(rng.integers(len(sentences))), planted[turn % len(planted)].answer)
        record = {"_id": f"s{number}", "title": " ".join(drawn[:6]), "text": " ".join(sentences)}
        yield json.dumps(record).encode() + b"\n"


def unit(rows: FloatArray) -> FloatArray:
    """The rows, each of length one."""
    scaled: FloatArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


class SyntheticEncoder:
    """Stands in for the real encoder at ingest: vectors and token vectors by table and by chance, planted ones near
    their questions. It says it is the real one, so that the collection can be queried and added to with that."""

    engine = "synthetic"

    def __init__(self, real: Encoder, planted: Sequence[Topic], *, bits: bool, seed: int = 2) -> None:
        self.name, self.fingerprint = real.name, real.fingerprint
        self.dimension, self.vocabulary_size = real.dimension, real.vocabulary_size
        self.questions = real.encode([topic.question for topic in planted])
        self._rng = np.random.default_rng(seed)
        self._topic_of = {topic.words[0]: number for number, topic in enumerate(planted)}
        self._ids = {word: 1000 + n % (self.vocabulary_size - 1000) for n, word in enumerate(vocabulary(WORDS))}
        turn = np.linalg.qr(self._rng.standard_normal((self.dimension, self.dimension)))[0]
        fall = 1 / np.sqrt(1 + np.arange(self.dimension) / 30)
        self._shape = (fall[:, None] * turn).astype(np.float32)
        self._centres = self._noise(CENTRES)
        table = self._rng.standard_normal((self.vocabulary_size, self.dimension), dtype=np.float32)
        self._table = unit(table) if bits else None

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Unit rows (n, d)."""
        near = 0.55 * self._centres[self._rng.integers(0, CENTRES, len(texts))] + 0.83 * self._noise(len(texts))
        for place, text in enumerate(texts):
            topic = next((self._topic_of[word] for word in text.split() if word in self._topic_of), None)
            if topic is not None:
                share = self._rng.uniform(0.55, 0.75)
                near[place] = share * self.questions[topic] + np.sqrt(1 - share**2) * near[place]
        return unit(near)

    def encode_tokens(self, texts: Sequence[str]) -> list[Encoding]:
        """Vectors as `encode`, and a token for each of the first `TOKENS` words."""
        made = []
        for vector, text in zip(self.encode(texts), texts, strict=True):
            ids = np.array([self._ids.get(word, 999) for word in text.lower().split()[:TOKENS]], np.int32)
            empty = np.broadcast_to(np.zeros((), np.float32), (len(ids), self.dimension))
            made.append(Encoding(vector, empty if self._table is None else self._table[ids], ids))
        return made

    def _noise(self, count: int) -> FloatArray:
        rows = self._rng.standard_normal((count, self.dimension), dtype=np.float32) @ self._shape
        return unit(rows)


@dataclass(frozen=True, slots=True)
class Build:
    """What it took to make a collection. `peak` and `disk` are in bytes."""

    chunks: int
    documents: int
    seconds: float
    cpu_seconds: float
    peak: int
    disk: int


def build(data_dir: Path, name: str, chunks: int, real: Encoder, *, token_vectors: bool = True) -> Build:
    """Make the collection, in this process; `real` is the encoder that the questions will be encoded by."""
    planted = topics(topics_in(chunks))
    encoder = SyntheticEncoder(real, planted, bits=token_vectors)
    settings = CollectionSettings(encoder=real.name, token_vectors="bits" if token_vectors else "none")
    collection = Collection.create(data_dir, name, settings)
    started, told = time.perf_counter(), 0

    def tell(event: IngestEvent) -> None:
        nonlocal told
        if isinstance(event, Committed) and event.chunks >= told + max(1, chunks // 20):
            told = event.chunks
            rate = told / (time.perf_counter() - started)
            print(f"{told:,} chunks, {rate:,.0f}/s, peak {peak_memory() >> 20:,} MB", flush=True)

    report = ingest_jsonl(collection, records(chunks, planted), lambda: encoder, listener=tell)
    seconds = time.perf_counter() - started
    usage = resource.getrusage(resource.RUSAGE_SELF)
    info = collection.info()
    if report.failures:
        raise SystemExit(f"{report.failures[0].source}: {report.failures[0].reason}")
    return Build(info.chunks, info.documents, seconds, usage.ru_utime + usage.ru_stime, peak_memory(), info.bytes)


def peak_memory() -> int:
    """The most memory this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Make one collection and print what it took as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, required=True, metavar="N")
    parser.add_argument("--data-dir", type=Path, required=True, metavar="DIR")
    parser.add_argument("-c", "--collection", default="synthetic", metavar="NAME")
    parser.add_argument("--token-vectors", choices=("bits", "none"), default="bits")
    asked = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    real = load_encoder(DEFAULT_ENCODER)
    made = build(asked.data_dir, asked.collection, asked.chunks, real, token_vectors=asked.token_vectors == "bits")  # noqa: S105
    print(json.dumps({field: getattr(made, field) for field in Build.__slots__}))


if __name__ == "__main__":
    main()
