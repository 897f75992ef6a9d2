"""Run encoders and cross-encoders in fp32 on PyTorch through sentence-transformers.

The engine for GPUs, and for models that only sentence-transformers itself can run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragcli.errors import ModelUnavailable
from ragcli.models.engine_interface import Encoding, FloatArray, IntArray, text_vector, unit_rows, weighted_window
from ragcli.models.model_config import EncoderConfig, Pooling, reject_custom_code
from ragcli.models.model_lookup import LocalModel
from ragcli.models.wordpiece_tokenizer import WindowedTokenizer, read_tokenizer, replace_surrogates_for_tokenizer

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer
    from tokenizers import Tokenizer

# Padded tokens a batch may have. More does not run faster on two cores; a GPU wants more to be busy.
_TOKENS_ON_CPU = 2048
_TOKENS_ON_GPU = 32768
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class TorchEncoder:
    """A sentence-transformers model behind the Encoder protocol."""

    name: str
    fingerprint: str
    dimension: int
    vocabulary_size: int
    pooling: Pooling
    pieces: WindowedTokenizer
    model: SentenceTransformer
    padding: int
    engine: str = "torch"

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) unit rows."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return np.stack([encoding.vector for encoding in self._encode(texts, tokens=False)])

    def encode_tokens(self, texts: Sequence[str]) -> list[Encoding]:
        """Each text's vector and the unit rows of its tokens, in text order across windows."""
        return self._encode(texts, tokens=True)

    def _encode(self, texts: Sequence[str], *, tokens: bool) -> list[Encoding]:
        encodings = []
        for start in range(0, len(texts), _BLOCK):
            windows = self.pieces.split(texts[start : start + _BLOCK])
            results = iter(self._run([ids for text in windows for ids in text], tokens=tokens))
            for ids in windows:
                parts = [next(results) for _ in ids]
                vector = text_vector(share for share, _ in parts)
                encodings.append(Encoding(vector, np.concatenate([rows for _, rows in parts]), np.concatenate(ids)))
        return encodings

    def _run(self, windows: Sequence[IntArray], *, tokens: bool) -> list[tuple[FloatArray, FloatArray]]:
        """Each window's share in its text's vector, and the unit rows of its tokens (none if not asked for)."""
        import torch

        order = sorted(range(len(windows)), key=lambda place: -len(windows[place]))
        results: dict[int, tuple[FloatArray, FloatArray]] = {}
        while order:
            length = len(self.pieces.wrap(windows[order[0]]))
            size = max(1, (_TOKENS_ON_CPU if self.model.device.type == "cpu" else _TOKENS_ON_GPU) // length)
            batch, order = order[:size], order[size:]
            ids = np.full((len(batch), length), self.padding, dtype=np.int64)
            mask = np.zeros_like(ids)
            for row, place in enumerate(batch):
                wrapped = self.pieces.wrap(windows[place])
                ids[row, : len(wrapped)] = wrapped
                mask[row, : len(wrapped)] = 1
            features = {
                "input_ids": torch.from_numpy(ids).to(self.model.device),
                "attention_mask": torch.from_numpy(mask).to(self.model.device),
            }
            with torch.inference_mode():
                output = self.model(features)
            states = output["token_embeddings"].float().cpu().numpy()
            pooled = output["sentence_embedding"].float().cpu().numpy()
            for row, place in enumerate(batch):
                mine = states[row, : int(mask[row].sum())]
                results[place] = (self._share(mine, pooled[row]), self._inside(mine) if tokens else mine[:0])
        return [results[place] for place in range(len(windows))]

    def _share(self, states: FloatArray, pooled: FloatArray) -> FloatArray:
        if self.pooling == "other":
            return pooled * np.float32(len(states))
        return weighted_window(states, self.pooling)

    def _inside(self, states: FloatArray) -> FloatArray:
        return unit_rows(states[len(self.pieces.before) : len(states) - len(self.pieces.after)])


@dataclass(frozen=True, slots=True)
class TorchCrossEncoder:
    """Any sentence-transformers CrossEncoder with one label behind the TextReranker protocol."""

    name: str
    model: CrossEncoder
    max_passage_chars: int
    engine: str = "torch"

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """(n,) the scores of (query, text), of each text's first `passage_characters` characters."""
        if not texts:
            return np.empty(0, dtype=np.float32)
        query = replace_surrogates_for_tokenizer(query)
        pairs = [(query, replace_surrogates_for_tokenizer(text[: self.max_passage_chars])) for text in texts]
        scores = np.asarray(self.model.predict(pairs, show_progress_bar=False), dtype=np.float32)
        if scores.ndim != 1:
            raise ModelUnavailable(
                f"{self.name} gives {scores.shape[1]} scores for a passage where a reranker gives one; name another."
            )
        return scores


def load_torch_encoder(found: LocalModel, layout: EncoderConfig, fingerprint: str) -> TorchEncoder:
    """Load a sentence encoder onto the best device. Raises ModelUnavailable for files it cannot load."""
    reject_custom_code(found.path)
    with _without_library_output():
        from sentence_transformers import SentenceTransformer

        try:
            model = SentenceTransformer(
                str(found.path),
                device=_device(),
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )
        except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
            raise _load_error(found.path, error) from None
    tokenizer = _tokenizer(model, found.path)
    pieces = WindowedTokenizer(tokenizer, layout.max_length, lower_case=layout.lower_case)
    vocabulary = layout.config.get("vocab_size")
    return TorchEncoder(
        name=found.name,
        fingerprint=fingerprint,
        dimension=_dimension(model),
        vocabulary_size=max(pieces.vocabulary_size, vocabulary if isinstance(vocabulary, int) else 0),
        pooling=layout.pooling,
        pieces=pieces,
        model=model,
        padding=int(getattr(model.tokenizer, "pad_token_id", 0) or 0),
    )


def load_torch_cross_encoder(found: LocalModel, max_passage_chars: int) -> TorchCrossEncoder:
    """Load a cross-encoder onto the best device. Raises ModelUnavailable for files it cannot load."""
    reject_custom_code(found.path)
    with _without_library_output():
        from sentence_transformers import CrossEncoder

        try:
            model = CrossEncoder(
                str(found.path),
                device=_device(),
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )
        except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
            raise _load_error(found.path, error) from None
    return TorchCrossEncoder(found.name, model, max_passage_chars)


@contextlib.contextmanager
def _without_library_output() -> Iterator[None]:
    """Keep transformers' own progress bars off while loading: one line of ours says enough."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _device() -> str:
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _dimension(model: SentenceTransformer) -> int:
    # The first name is the present one; releases that we still support have only the second.
    ask = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
    return int(ask() or 0)


def _tokenizer(model: SentenceTransformer, folder: Path) -> Tokenizer:
    if (folder / "tokenizer.json").is_file():
        return read_tokenizer(folder)
    # Older models keep another format, which transformers has just converted. A copy, because ours is changed.
    from tokenizers import Tokenizer

    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise ModelUnavailable(f"{folder} has a tokenizer that only Python code can run; it cannot be used.")
    return Tokenizer.from_str(backend.to_str())


def _load_error(folder: Path, error: Exception) -> ModelUnavailable:
    reason = str(error).strip().split("\n", 1)[0]
    return ModelUnavailable(f"{folder} cannot be loaded by sentence-transformers: {reason}")
