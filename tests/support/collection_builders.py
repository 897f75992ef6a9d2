"""What the tests of the collection floor share: an encoder that costs nothing, texts, and folders of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np

from ragcli.collection import Collection, IngestOptions, IngestReport, ingest, ingest_jsonl
from ragcli.documents import ReadOptions
from ragcli.models.engine_interface import Encoding, FloatArray
from ragcli.types import CollectionSettings

_TOPICS = """
wormhole energy boundary throat geodesic leader election log term quorum sketch register estimate distinct
stream value paper method result bound proof network latency cache server client index query passage
"""
WORDS = tuple(_TOPICS.split())
READ_HERE = ReadOptions(workers=0)


@dataclass
class HashEncoder:
    """Vectors drawn from a hash of each word: equal texts have equal vectors, texts sharing words near ones."""

    name: str = "fake"
    engine: str = "onnx"
    fingerprint: str = "f" * 64
    dimension: int = 16
    vocabulary_size: int = 1000
    texts: list[str] = field(default_factory=list)
    before: Callable[[], None] = lambda: None
    _known: dict[str, tuple[int, FloatArray]] = field(default_factory=dict)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        return np.stack([self._encoding(text).vector for text in texts])

    def encode_tokens(self, texts: Sequence[str]) -> list[Encoding]:
        self.before()
        self.texts += texts
        return [self._encoding(text) for text in texts]

    def _encoding(self, text: str) -> Encoding:
        words = [self._word(word) for word in text.lower().split() or ["nothing"]]
        states = np.stack([vector for _, vector in words])
        mean = states.mean(axis=0)
        return Encoding(mean / np.linalg.norm(mean), states, np.asarray([number for number, _ in words], np.int32))

    def _word(self, word: str) -> tuple[int, FloatArray]:
        if word not in self._known:
            seed = blake2b(word.encode() + self.fingerprint.encode(), digest_size=8).digest()
            number = int.from_bytes(seed, "little")
            vector = np.random.default_rng(number).standard_normal(self.dimension).astype(np.float32)
            self._known[word] = number % self.vocabulary_size, vector / np.linalg.norm(vector)
        return self._known[word]


def prose(seed: int, words: int = 60) -> str:
    """Some words that depend on the seed alone, in sentences, ending in a word no other seed has."""
    chosen = np.random.default_rng(seed).choice(WORDS, words)
    lines = [" ".join(chosen[at : at + 12]).capitalize() + "." for at in range(0, words, 12)]
    return " ".join(lines) + f" Unique{seed}word."


def write_files(folder: Path, texts: Mapping[str, str]) -> Path:
    """Put texts into files under `folder`."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def new_collection(tmp_path: Path, name: str = "papers", **settings: object) -> Collection:
    """An empty collection whose encoder is called "fake"."""
    return Collection.create(tmp_path / "data", name, CollectionSettings(**{"encoder": "fake", **settings}))  # type: ignore[arg-type]


def take_in(
    collection: Collection, *roots: Path, encoder: HashEncoder | None = None, **options: object
) -> IngestReport:
    """Ingest with a fake encoder. The files are ours, so they are read without a process of their own."""
    chosen = encoder or HashEncoder()
    return ingest(collection, roots, lambda: chosen, IngestOptions(**{"read": READ_HERE, **options}))  # type: ignore[arg-type]


def take_in_records(
    collection: Collection, *records: Mapping[str, object], encoder: HashEncoder | None = None
) -> IngestReport:
    """Ingest JSONL records from a stream with a fake encoder."""
    chosen = encoder or HashEncoder()
    lines = [json.dumps(record).encode() + b"\n" for record in records]
    return ingest_jsonl(collection, lines, lambda: chosen, IngestOptions(read=READ_HERE))


def all_texts(collection: Collection) -> dict[str, str]:
    """Every document's text by source."""
    with collection.snapshot() as snapshot:
        return {document.source: document.text for document in snapshot.texts()}


# Permissions don't bind root; without these two capabilities (overriding them to write, and to read) they do.
_UNPRIVILEGED = """
    import ctypes, os, sys
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def run_unprivileged(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python script as somebody whom permissions bind."""
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    if os.geteuid() == 0:
        command[1:1] = ["-c", textwrap.dedent(_UNPRIVILEGED)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
