"""Facts of a sentence that a passage may lack: quantities, names, negations, antonyms, words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from ragcli.text.stop_words import STOP_WORDS
from ragcli.text.unicode import letters_and_digits

# "IL-6" is one name, and another than "IL-8".
_TOKEN: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)?(?:[-‐‑]\d+[^\W_]*)*|[.;:!?,()]")
_DENYING: Final = (
    "not no never neither nor none cannot without nothing nobody nowhere hardly rarely seldom unable fail fails "
    "failed failing lack lacks lacked lacking absence absent instead non nonexistent"
)
_CUES: Final = frozenset(_DENYING.split())
# "It hears nothing for a while": what stands before is denied, not what follows.
_OF_BEFORE: Final = frozenset({"nothing", "nobody", "none", "nowhere"})
# Around a cue, these carry no meaning that it could deny.
_WEIGHTLESS: Final = (
    "a an any did do does been being be have had will would shall should may might must can could to of the that "
    "there longer yet ever even just only also very quite such significantly at all but while whereas although though "
    "however thus therefore hence moreover furthermore then both each other another same own here now since because "
    "author authors per via upon within through during between among across"
)
_LIGHT: Final = STOP_WORDS | frozenset(_WEIGHTLESS.split())
# "A typical case" is no atypical one.
_NO_PART: Final = frozenset({"a", "an", "in"})
_SCOPE: Final = 3
_NEAR: Final = 2
_OPPOSITES: Final = (
    "increase decrease; increase reduce; increase decline; rise fall; raise lower; high low; higher lower; more less; "
    "more fewer; greater smaller; greater less; larger smaller; large small; positive negative; positively negatively; "
    "before after; above below; faster slower; fast slow; stronger weaker; strong weak; upper lower; better worse; "
    "best worst; most least; maximum minimum; maximal minimal; possible impossible; "
    "necessary unnecessary; sufficient insufficient; stable unstable; improve worsen; gain lose; gain loss; "
    "promote inhibit; activate inhibit; activate suppress; enhance inhibit; enhance reduce; enhance impair; "
    "induce prevent; induce suppress; upregulate downregulate; include exclude; accept reject; allow prevent; "
    "allow forbid; early late; first last; old new; long short; longer shorter; hot cold; "
    "expand contract; accelerate decelerate; accelerate slow; open closed; presence absence; present absent; "
    "majority minority; internal external; synchronous asynchronous; inside outside; "
    "minimise maximise; minimize maximize; "
    "same different; similar different; even odd; even uneven; active inactive; success failure; succeed fail"
)


@dataclass(frozen=True, slots=True)
class FactWord:
    """A word of a text: as written, folded to letters, its stem, and whether it is denied there."""

    written: str
    folded: str
    stem: str
    denied: bool
    name: bool
    start: int


@dataclass(frozen=True, slots=True)
class Facts:
    """A text read for its facts.

    `telling` are the words that say what it is about, numbers aside; `stems` and `run_together` are of all words.
    `order` has the stems of the telling words and the values of the numbers as they follow one another, each with its
    place. `denials` has the telling words next to each word that denies.
    """

    words: tuple[FactWord, ...]
    telling: tuple[FactWord, ...]
    numbers: tuple[Quantity, ...]
    stems: frozenset[str]
    run_together: frozenset[str]
    order: tuple[tuple[str, int], ...]
    denials: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class FactDifferences:
    """What a claim has and a text has not, each as it is written in the claim."""

    words: tuple[str, ...]
    share: float
    names: tuple[str, ...]
    numbers: tuple[str, ...]
    misplaced: tuple[str, ...]
    units: tuple[str, ...]
    denials: tuple[str, ...]
    opposites: tuple[str, ...]


@lru_cache(maxsize=512)
def facts_of(text: str) -> Facts:
    """Read a text."""
    words = tuple(_words(text))
    numbers = tuple(quantities(text))
    # "on-line" and "IL-6" are there however they are cut.
    pairs = {one.folded + other.folded for one, other in pairwise(words) if one.folded not in _NO_PART}
    runs = frozenset(pairs | {word.folded for word in words})
    telling = tuple(word for word in words if _tells(word, numbers))
    order = [(word.stem, word.start) for word in telling] + [(_key(each), each.start) for each in numbers]
    return Facts(
        words,
        telling,
        numbers,
        frozenset(word.stem for word in words),
        runs,
        tuple(sorted(order, key=lambda each: each[1])),
        tuple(_beside(place, words, telling) for place, word in enumerate(words) if _denies(word)),
    )


def differences(claim: Facts, known: Facts) -> FactDifferences:
    """What the claim states beyond the text."""
    telling = claim.telling
    missing = list(_missing(claim, known))
    opposites = [word.written for word in missing if _opposites().get(word.stem, frozenset()) & known.stems]
    numbers, misplaced, units = [], [], []
    for number in claim.numbers:
        alike = [each for each in known.numbers if same_value(number, each)]
        if not alike:
            numbers.append(number.written)
        elif _of_another_kind(number, alike):
            units.append(number.written)
        elif _out_of_place(number.start, {_key(each) for each in alike}, claim, known):
            misplaced.append(number.written)
    misplaced += [
        word.written
        for word in telling
        if (word.name or _opposites().get(word.stem, frozenset()) & known.stems)
        and word.stem in known.stems
        and _out_of_place(word.start, {word.stem}, claim, known)
    ]
    return FactDifferences(
        tuple(word.written for word in missing),
        len(missing) / len(telling) if telling else 0.0,
        tuple(word.written for word in missing if word.name),
        tuple(numbers),
        tuple(misplaced),
        tuple(units),
        tuple(_denials(claim, known)),
        tuple(opposites),
    )


def _tells(word: FactWord, numbers: Sequence[Quantity]) -> bool:
    if word.stem in _opposites():
        return True
    if word.folded in _LIGHT or word.folded in _CUES or word.folded.isdigit():
        return False
    return not any(number.start <= word.start < number.end for number in numbers)


def denials_shared(one: Facts, other: Facts) -> int:
    """How often one text denies something that the other speaks of."""
    return sum(bool(near & other.stems) for near in one.denials)


def _missing(claim: Facts, known: Facts) -> Iterator[FactWord]:
    wanted = set(claim.telling)
    for place, word in enumerate(claim.words):
        if word not in wanted or word.stem in known.stems or word.folded in known.run_together:
            continue
        before = claim.words[place - 1].folded if place else ""
        before = "" if before in _NO_PART else before
        after = claim.words[place + 1].folded if place + 1 < len(claim.words) else ""
        if before + word.folded not in known.run_together and word.folded + after not in known.run_together:
            yield word


def _denials(claim: Facts, known: Facts) -> Iterator[str]:
    """Words that the claim denies and the text states, or the other way round, each time they occur."""
    states: dict[str, set[bool]] = {}
    for word in known.words:
        states.setdefault(word.stem, set()).add(word.denied)
    for word in claim.telling:
        known_states = states.get(word.stem)
        if known_states and word.denied not in known_states:
            yield f"not {word.written}" if word.denied else word.written


def _of_another_kind(number: Quantity, alike: Sequence[Quantity]) -> bool:
    """Is the number of milliseconds where the text has seconds, or bare where the text has per cent?"""
    if number.unit is None:
        return all(each.unit == "%" for each in alike)
    return all(each.unit not in (None, number.unit) for each in alike)


def _out_of_place(start: int, keys: set[str], claim: Facts, known: Facts) -> bool:
    """Does what stands at `start` have other neighbours in the claim than in the text, wherever it stands there?

    Only neighbours that the text knows can say so; one that it has in other words cannot.
    """
    place = next((at for at, (_, begins) in enumerate(claim.order) if begins == start), None)
    if place is None:
        return False
    there = {key for key, _ in known.order}
    beside = {key for key, _ in claim.order[max(place - 1, 0) : place + 2] if key not in keys}
    if not beside or not beside <= there:
        return False
    for at, (key, _) in enumerate(known.order):
        if key in keys and beside & {near for near, _ in known.order[max(at - _NEAR, 0) : at + _NEAR + 1]}:
            return False
    return True


def _beside(place: int, words: Sequence[FactWord], telling: Sequence[FactWord]) -> frozenset[str]:
    start = words[place].start
    if words[place].folded in _OF_BEFORE:
        return frozenset([word.stem for word in telling if word.start < start][-1:])
    return frozenset([word.stem for word in telling if word.start > start][:1])


def _key(number: Quantity) -> str:
    return f"{number.value:g}"


def _denies(word: FactWord) -> bool:
    return word.folded in _CUES or word.written.lower().endswith(("n't", "n’t"))


def _words(text: str) -> Iterator[FactWord]:
    stem = _stemmer()
    tokens = [(match[0], match.start()) for match in _TOKEN.finditer(text)]
    scope = 0
    first = True
    for place, (written, start) in enumerate(tokens):
        if not written[0].isalnum():
            scope = 0
            first = first or written in ".!?"
            continue
        folded = _folded(written)
        is_cue = folded in _CUES or written.lower().endswith(("n't", "n’t"))
        # "not only … but also" denies nothing.
        if is_cue and folded == "not" and place + 1 < len(tokens) and tokens[place + 1][0].lower() in ("only", "just"):
            is_cue = False
        light = is_cue or folded in _LIGHT
        yield FactWord(
            written, folded, stem(folded), denied=scope > 0 and not light, name=_is_name(written, first), start=start
        )
        first = False
        if is_cue:
            scope = 0 if folded in _OF_BEFORE else _SCOPE
        elif not light and scope:
            scope -= 1


def _is_name(written: str, first: bool) -> bool:
    capitals = sum(character.isupper() for character in written)
    if capitals >= 2 or (any(c.isdigit() for c in written) and any(c.isalpha() for c in written)):
        return True
    return capitals == 1 and written[0].isupper() and not first and len(written) > 1


def _folded(written: str) -> str:
    lower = written.lower().removesuffix("'s").removesuffix("’s")
    if lower.isascii():
        return lower.replace("'", "").replace("-", "")
    return letters_and_digits(lower)


@lru_cache(maxsize=1)
def _stemmer() -> Callable[[str], str]:
    import Stemmer

    return lru_cache(maxsize=65536)(Stemmer.Stemmer("english").stemWord)


@lru_cache(maxsize=1)
def _opposites() -> dict[str, frozenset[str]]:
    stem = _stemmer()
    found: dict[str, set[str]] = {}
    for pair in _OPPOSITES.split(";"):
        one, other = (stem(word) for word in pair.split())
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return {word: frozenset(others) for word, others in found.items()}


_SMALL: Final = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_TENS: Final = "thirty forty fifty sixty seventy eighty ninety"
_WORDS: Final = MappingProxyType(
    {
        **{word: float(value) for value, word in enumerate(_SMALL.split(), 2)},
        **{word: 10.0 * value for value, word in enumerate(_TENS.split(), 3)},
        "twice": 2.0,
        "half": 0.5,
        "hundred": 100.0,
        "dozen": 12.0,
    }
)
_SCALES: Final = MappingProxyType({"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12})
_UNITS_AS_WRITTEN: Final = (
    "%|percent|per cent; ms|millisecond|milliseconds|msec; s|sec|secs|second|seconds; min|mins|minute|minutes; "
    "h|hr|hrs|hour|hours; day|days; week|weeks; month|months; year|years|yr|yrs; us|µs|μs|microsecond|microseconds; "
    "ns|nanosecond|nanoseconds; kg|kilogram|kilograms; g|gram|grams; mg|milligram|milligrams; µg|μg|ug|mcg; "
    "l|liter|liters|litre|litres; ml; m|meter|meters|metre|metres; cm|centimeter|centimeters; "
    "mm|millimeter|millimeters; km|kilometer|kilometers; nm|nanometer|nanometers; µm|μm|um|micrometer|micrometers; "
    "ft|foot|feet; in|inch|inches; mile|miles; b|byte|bytes; bit|bits; kb|kib|kilobyte|kilobytes; "
    "mb|mib|megabyte|megabytes; gb|gib|gigabyte|gigabytes; tb|tib|terabyte|terabytes; "
    "pb|pib|petabyte|petabytes; eb|eib|exabyte|exabytes; kbps; mbps; gbps; decade|decades; century|centuries; "
    "hz|hertz; khz; mhz; ghz; k|kelvin; v|volt|volts; mv; kv; w|watt|watts; mw; kw; ev; kev; mev; gev; "
    "j|joule|joules; kj; pa; kpa; mpa; mol; mmol; µmol|μmol|umol; times|fold|x; dollars|dollar; degrees|degree|°"
)
_UNITS: Final = MappingProxyType(
    {name.strip(): group.split("|")[0].strip() for group in _UNITS_AS_WRITTEN.split(";") for name in group.split("|")}
)
_NUMBER: Final = re.compile(
    r"(?<![^\W_])(?<![^\W\d_][-‐‑])(?:(?<![\w.)\]])[-−+])?"
    r"(?:\d{1,3}(?:[,\u2009\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\w)\.\d+)(?![\d.]*[^\W\d_]{2,}-?\d)"
)
_WORD_NUMBER: Final = re.compile(rf"(?<![^\W_])(?:{'|'.join(_WORDS)})(?![^\W_])", re.IGNORECASE)
_AFTER: Final = re.compile(r"[\s-]{0,2}(thousand|million|billion|trillion)(?![^\W_])", re.IGNORECASE)
_UNIT: Final = re.compile(r"[\s-]{0,2}(per cent|%|°|[^\W\d_]+)")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number: its value, its unit where that is a known one, how it is written, and where.

    `digits` are the significant digits it is given with, 0 for a number in words.
    """

    value: float
    unit: str | None
    digits: int
    written: str
    start: int
    end: int


def quantities(text: str) -> list[Quantity]:
    """The numbers of a text, in order."""
    found = [_of(text, match, _value(match[0]), _digits(match[0])) for match in _NUMBER.finditer(text)]
    found += [_of(text, match, _WORDS[match[0].lower()], 0) for match in _WORD_NUMBER.finditer(text)]
    return sorted(found, key=lambda each: each.start)


def in_digits(text: str) -> str:
    """The text with its small numbers in words, "two" to "twelve", as digits."""
    return _WORD_NUMBER.sub(lambda found: f"{_WORDS[found[0].lower()]:g}", text)


def same_value(claimed: Quantity, known: Quantity) -> bool:
    """Is the claimed number the known one, or what becomes of it by rounding to two digits or more?"""
    pairs = [(claimed.value, known.value)]
    if (claimed.unit == "%") != (known.unit == "%"):
        share = claimed if claimed.unit != "%" else known
        if abs(share.value) <= 1:
            pairs.append((claimed.value, known.value * 100) if share is known else (claimed.value * 100, known.value))
    for one, other in pairs:
        if abs(one - other) <= 1e-9 * max(abs(one), abs(other), 1e-300):
            return True
        if 2 <= claimed.digits < known.digits and _rounded(other, claimed.digits) == _rounded(one, claimed.digits):
            return True
    return False


def _of(text: str, match: re.Match[str], value: float, digits: int) -> Quantity:
    end = match.end()
    if scale := _AFTER.match(text, end):
        value, end = value * _SCALES[scale[1].lower()], scale.end()
    unit = None
    if (following := _UNIT.match(text, end)) and (unit := _unit(following[1])) is not None:
        end = following.end()
    return Quantity(value, unit, digits, text[match.start() : end], match.start(), end)


def _unit(word: str) -> str | None:
    return _UNITS.get(word) or _UNITS.get(word.lower() if len(word) > 2 else word)


def _value(written: str) -> float:
    return float(re.sub("[,\u2009\u202f]", "", written).replace("−", "-"))


def _digits(written: str) -> int:
    digits = re.sub(r"[^\d]", "", written).lstrip("0")
    return max(len(digits if "." in written else digits.rstrip("0") or digits), 1)


def _rounded(value: float, digits: int) -> str:
    return f"{value:.{digits - 1}e}"
