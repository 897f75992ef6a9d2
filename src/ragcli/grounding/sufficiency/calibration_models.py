"""Calibration parameters: two logistic models, their mixture, thresholds; JSON in and out."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any, Final, Literal

from ragcli.errors import CollectionError
from ragcli.grounding.sufficiency.evidence import PRESETS, Preset

CALIBRATION_FORMAT: Final = 1
CalibrationKind = Literal["vectors", "words"]
FEATURE_CLIP: Final = 4.0
"""Deviations from the mean beyond which a feature counts no more: a line fitted near the mean says nothing there."""


@dataclass(frozen=True, slots=True)
class Term:
    """One feature's part in a model: `weight` for each `scale` that it lies from `centre`."""

    name: str
    centre: float
    scale: float
    weight: float


@dataclass(frozen=True, slots=True)
class Logistic:
    """A logistic model over named features."""

    terms: tuple[Term, ...]
    intercept: float

    def logit(self, features: Mapping[str, float]) -> float:
        """The logarithm of the odds."""
        total = self.intercept
        for term in self.terms:
            away = (features.get(term.name, term.centre) - term.centre) / term.scale
            total += term.weight * min(max(away, -FEATURE_CLIP), FEATURE_CLIP)
        return total

    def probability(self, features: Mapping[str, float]) -> float:
        """Between 0 and 1."""
        return sigmoid(self.logit(features))


@dataclass(frozen=True, slots=True)
class Calibration:
    """The models, and the probability that each preset asks for.

    `kind` says which features there are: those of `vectors`, or of `words` alone where there is no encoder.
    `encoder` is the fingerprint of the one they were fitted with (None for words), `questions` and `answerable` how
    many questions there were and how many of them could be answered, `where` what they were asked of.
    """

    kind: CalibrationKind
    topic: Logistic
    fact: Logistic
    thresholds: Mapping[Preset, float]
    own: Logistic | None = None
    encoder: str | None = None
    questions: int = 0
    answerable: int = 0
    where: str = ""

    def inputs(self, features: Mapping[str, float]) -> dict[str, float]:
        """The features with what the two models say of them: `topic` and `fact` are logits."""
        return {**features, "topic": self.topic.logit(features), "fact": self.fact.logit(features)}

    def probability(self, features: Mapping[str, float]) -> float:
        """The probability that a question with these features can be answered."""
        if self.own is not None:
            return self.own.probability(self.inputs(features))
        return self.topic.probability(features) * self.fact.probability(features)


def sigmoid(value: float) -> float:
    """1 / (1 + exp(-value)), for any value."""
    if value >= 0:
        return 1.0 / (1.0 + math.exp(-value))
    odds = math.exp(value)
    return odds / (1.0 + odds)


def default_calibration(kind: CalibrationKind) -> Calibration:
    """The calibration that comes with ragcli; `scripts/bench/fit_gate` makes it."""
    text = resources.files("ragcli.grounding.sufficiency").joinpath("coefficients.json").read_text("utf-8")
    return decode_calibration(json.dumps(json.loads(text)[kind]))


def encode_calibration(calibration: Calibration) -> str:
    """As JSON."""
    return json.dumps({"format": CALIBRATION_FORMAT, **asdict(calibration)}, sort_keys=True)


def decode_calibration(text: str) -> Calibration:
    """From JSON. CollectionError if it is no calibration that this version reads."""
    try:
        stored = json.loads(text)
        if stored["format"] != CALIBRATION_FORMAT:
            raise ValueError(f"its format is {stored['format']}")
        if stored["kind"] not in ("vectors", "words"):
            raise ValueError(f"its kind is {stored['kind']}")
        return Calibration(
            kind=stored["kind"],
            topic=_logistic(stored["topic"]),
            fact=_logistic(stored["fact"]),
            own=None if stored["own"] is None else _logistic(stored["own"]),
            thresholds={preset: _number(stored["thresholds"][preset]) for preset in PRESETS},
            encoder=None if stored["encoder"] is None else str(stored["encoder"]),
            questions=int(stored["questions"]),
            answerable=int(stored["answerable"]),
            where=str(stored["where"]),
        )
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError) as error:
        raise CollectionError(
            f"The gate's calibration cannot be read ({error}); `ragcli eval --calibrate-gate` makes a new one."
        ) from error


def _logistic(stored: Any) -> Logistic:
    terms = tuple(
        Term(str(each["name"]), _number(each["centre"]), _number(each["scale"]), _number(each["weight"]))
        for each in stored["terms"]
    )
    if any(term.scale <= 0 for term in terms):
        raise ValueError("a scale is not above zero")
    return Logistic(terms, _number(stored["intercept"]))


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is no number")
    return number
