"""Default faithfulness judge: late interaction plus facts, weighed by logistic regression."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ragcli.grounding.faithfulness.claims import Claim, EvidencePassage, Support
from ragcli.grounding.faithfulness.facts import FactDifferences, Facts, denials_shared, differences, facts_of, in_digits
from ragcli.grounding.sufficiency.calibration_models import sigmoid
from ragcli.retrieval.rerank import token_weights
from ragcli.text.sentences import sentence_spans
from ragcli.types import NO_ENCODER

if TYPE_CHECKING:
    from ragcli.models import Encoder, FloatArray, IntArray
    from ragcli.retrieval.searcher import Searcher

SUPPORT_THRESHOLD: Final = 0.5
"""A sentence is supported from this probability on."""
_LONGEST_STRETCH: Final = 3
_STRETCHES: Final = 3
_KEPT: Final = 1500
_AT_ONCE: Final = 32
_SHOWN: Final = 8
_LONGEST_SENTENCE: Final = 1200
_NEARLY_REPEATED: Final = 0.6
_WRITTEN_ALIKE: Final = (
    (re.compile(r"(?<=\d),(?=\d{3}(?!\d))"), ""),
    (re.compile(r"(?<=\d)\s?%"), " percent"),
    (re.compile(r"\b[Tt]he (?:authors|researchers)\b"), "we"),
    # A quotation mark is rare, so its vector would count for more than any word; it means nothing.
    (re.compile(r"[\"“”„«»‹›*_`#•‣▪†‡…!?|~\[\]{}\\]+|\.{2,}|(?<!\w)['‘’]|['’](?!\w)"), " "),
    (re.compile(r"(?:\A|(?<=\s))[>–—-]+(?=\s)|—"), " "),
)


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """An encoder, and how much word pieces (t,) of given ids count, (t,); without that, all count the same."""

    encoder: Encoder
    weigh: Callable[[IntArray], FloatArray] | None = None


@dataclass(frozen=True, slots=True)
class _SentenceWindow:
    """Neighbouring sentences of one passage, and how much of the claim's meaning stands in them."""

    passage: int
    start: int
    end: int
    text: str
    sentences: tuple[str, ...]
    coverage: float
    weakest: float


def token_vectors(searcher: Searcher) -> TokenVectors | None:
    """The encoder of the searcher's collections, that of the first where they have several; None without any."""
    readers = [each for each in searcher.readers if each.chunk_count and each.settings.encoder != NO_ENCODER]
    if not readers:
        return None
    name = readers[0].settings.encoder
    mine = [each for each in readers if each.settings.encoder == name]
    return TokenVectors(searcher.encoder(name), lambda token_ids: token_weights(mine, token_ids))


class SemanticJudge:
    """Late interaction and facts. Without vectors, facts and words alone."""

    name = "semantic"

    def __init__(self, vectors: TokenVectors | None = None) -> None:
        self._vectors = vectors
        self._tokens: OrderedDict[str, FloatArray] = OrderedDict()

    def judge(self, claims: Sequence[Claim]) -> tuple[Support, ...]:
        """One verdict a claim."""
        return tuple(self._of(claim) for claim in claims)

    def features(self, claim: Claim) -> list[tuple[dict[str, float], Support]]:
        """What each stretch that could support the claim is judged by; the verdicts' scores are not yet set."""
        known = facts_of(claim.text)
        found = []
        for stretch in self._stretches(claim, known):
            passage = claim.passages[stretch.passage]
            # What a passage is about it need not say again: "it" is the system of the title.
            near = differences(known, facts_of(f"{passage.about}. {stretch.text}"))
            far = differences(known, facts_of(f"{passage.about}. {passage.text}"))
            alone = differences(known, facts_of(stretch.text)) if passage.about else near
            missing = _missing(near, far, alone)
            features = _features(stretch, near, far, alone) | {"denying": _denied_otherwise(known, stretch)}
            support = Support(claim.text, False, 0.0, missing, stretch.passage, stretch.start, stretch.end)
            found.append((features, support))
        return found

    def _of(self, claim: Claim) -> Support:
        weights = semantic_coefficients("words" if self._vectors is None else "vectors")
        best: Support | None = None
        for features, support in self.features(claim):
            score = support_probability(features, weights)
            if best is None or score > best.score:
                supported = score >= SUPPORT_THRESHOLD
                best = Support(
                    claim.text,
                    supported,
                    score,
                    () if supported else support.missing,
                    support.passage,
                    support.start,
                    support.end,
                )
        return best if best is not None else Support(claim.text, False, 0.0, (claim.text,))

    def _stretches(self, claim: Claim, known: Facts) -> list[_SentenceWindow]:
        """The stretches of each passage that say most of the claim, best first."""
        found: list[_SentenceWindow] = []
        for number, passage in enumerate(claim.passages):
            spans = _sentences(passage)
            if not spans:
                continue
            texts = [passage.text[start:end] for start, end in spans]
            meant = self._similarities(claim.text, [*texts, passage.about])
            mine = []
            for first in range(len(spans)):
                for last in range(first, min(first + _LONGEST_STRETCH, len(spans))):
                    start, end = spans[first][0], spans[last][1]
                    text = passage.text[start:end]
                    if meant is None:
                        coverage = weakest = 1.0 - differences(known, facts_of(text)).share
                    else:
                        rows = np.maximum(meant[0][first : last + 1].max(axis=0), meant[0][-1])
                        coverage, weakest = _covered(rows, meant[1])
                    mine.append(
                        _SentenceWindow(number, start, end, text, tuple(texts[first : last + 1]), coverage, weakest)
                    )
            mine.sort(key=lambda each: -(each.coverage - 0.0001 * len(each.text) / 100))
            found += mine[:_STRETCHES]
        return found

    def _similarities(self, claim: str, texts: Sequence[str]) -> tuple[FloatArray, FloatArray] | None:
        """Each sentence's nearest word piece to each of the claim's, (sentences, pieces), and the pieces' weights."""
        if self._vectors is None:
            return None
        encoder = self._vectors.encoder
        encoding = encoder.encode_tokens([_plain(claim)])[0]
        if not len(encoding.tokens):
            return None
        tokens = self._tokens_of(texts)
        rows = [
            (each @ encoding.tokens.T).max(axis=0) if len(each) else np.full(len(encoding.tokens), -1.0, np.float32)
            for each in tokens
        ]
        weigh = self._vectors.weigh
        weights = np.ones(len(encoding.tokens), np.float32) if weigh is None else weigh(encoding.token_ids)
        return np.asarray(rows, np.float32), weights

    def _tokens_of(self, texts: Sequence[str]) -> list[FloatArray]:
        assert self._vectors is not None  # noqa: S101
        new = [text for text in dict.fromkeys(texts) if text not in self._tokens]
        fresh: dict[str, FloatArray] = {}
        for start in range(0, len(new), _AT_ONCE):
            batch = new[start : start + _AT_ONCE]
            encoded = self._vectors.encoder.encode_tokens([_plain(text) for text in batch])
            fresh |= {text: each.tokens for text, each in zip(batch, encoded, strict=True)}
        self._tokens.update(fresh)
        found = [self._tokens[text] for text in texts]
        for text in texts:
            self._tokens.move_to_end(text)
        while len(self._tokens) > _KEPT:
            self._tokens.popitem(last=False)
        return found


def support_probability(features: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The logistic regression's probability that a claim with these features is supported."""
    total = weights["intercept"] + sum(weights.get(name, 0.0) * value for name, value in features.items())
    return sigmoid(total)


def _sentences(passage: EvidencePassage) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for start, end in sentence_spans(passage.text):
        # A table or a list without stops is one sentence of a thousand words; it is cut.
        spans += [(at, min(at + _LONGEST_SENTENCE, end)) for at in range(start, end, _LONGEST_SENTENCE)]
    return spans


def _covered(best: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """The weighted mean of the pieces' best similarities, and the mean of the worst of those that count."""
    total = float(weights.sum())
    if total <= 0:
        return float(best.mean()), float(best.min())
    coverage = float(best @ weights) / total
    counting = np.sort(best[weights >= np.median(weights)])
    return coverage, float(counting[: max(1, len(counting) // 6)].mean())


def _plain(text: str) -> str:
    """The text with numbers written in one way, those who speak called by one name, and no marks but stops."""
    for pattern, instead in _WRITTEN_ALIKE:
        text = pattern.sub(instead, text)
    return in_digits(" ".join(text.split()))


def _denied_otherwise(claim: Facts, stretch: _SentenceWindow) -> float:
    """1 if the claim denies more or less often than the sentence that it nearly repeats."""
    wanted = {word.stem for word in claim.telling}
    best, likest = 0.0, None
    for sentence in stretch.sentences:
        known = facts_of(sentence)
        there = {word.stem for word in known.telling}
        # A part of a sentence repeats it as well.
        alike = len(wanted & there) / max(min(len(wanted), len(there)), 1) if len(there) >= len(wanted) // 2 else 0.0
        if alike > best:
            best, likest = alike, known
    if likest is None or best < _NEARLY_REPEATED:
        return 0.0
    return float(denials_shared(claim, likest) != denials_shared(likest, claim))


def _features(
    stretch: _SentenceWindow, near: FactDifferences, far: FactDifferences, alone: FactDifferences
) -> dict[str, float]:
    names_far = len(far.names)
    numbers_far = len(far.numbers)
    return {
        "coverage": stretch.coverage,
        "weakest": stretch.weakest,
        "words": near.share,
        "words_far": far.share,
        "names": float(min(names_far, 2)),
        "names_near": float(min(max(len(near.names) - names_far, 0), 2)),
        "numbers": float(min(numbers_far, 2)),
        "numbers_near": float(min(max(len(near.numbers) - numbers_far, 0), 2)),
        "misplaced": float(min(len(alone.misplaced), 1)),
        "units": float(min(len(near.units), 1)),
        "denials": float(min(len(near.denials), 2)),
        "opposites": float(min(len(near.opposites), 1)),
    }


def _missing(near: FactDifferences, far: FactDifferences, alone: FactDifferences) -> tuple[str, ...]:
    """What to name as not supported: facts before words, what the whole passage lacks before what stands elsewhere."""
    parts = (
        *(far.numbers, near.units, far.names, near.denials, near.opposites),
        *(near.numbers, alone.misplaced, near.names, far.words, near.words),
    )
    return tuple(dict.fromkeys(each for part in parts for each in part))[:_SHOWN]


@cache
def semantic_coefficients(kind: Literal["vectors", "words"]) -> Mapping[str, float]:
    """The weights of the default judge's features and its intercept, with an encoder's vectors or by words alone.

    `scripts/bench/faithfulness --fit` fits them.
    """
    text = resources.files("ragcli.grounding.faithfulness").joinpath("semantic_coefficients.json").read_text("utf-8")
    coefficients: Mapping[str, float] = json.loads(text)[kind]
    return MappingProxyType(dict(coefficients))
