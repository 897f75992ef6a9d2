"""Sentences that a passage supports, and sentences that it does not by one fact, made from a corpus by rule.

A sentence of a document is taken with the chunk that it stands in, and said otherwise: an opening or a closing clause
changes its place, connecting words, adverbs and parentheses go, "we" become "the authors", common words are exchanged
for others of the same meaning, numbers are written another way. One in five stays word for word. Where the
title names a thing that the text speaks of all the time, half of the sentences that do not name it get "In X, " before
them. In half of the sentences so made, one fact is then changed: a number (half of the time to another number of the
same passage), a negation put in or taken out, or a name exchanged for another one of the document, where there is one;
to fit on, also a direction turned round ("higher" to "lower"), and sentences that stand elsewhere. Both halves go
through the same rules, and a supported sentence has a number, something to negate or a name as often as the other
kind, so nothing but the fact itself tells them apart. The same seed makes the same sentences.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ragcli.documents import chunk_document, read_file, read_jsonl
from ragcli.documents.discovery import discover
from ragcli.errors import DocumentError
from ragcli.text.sentences import sentence_spans
from ragcli.types import Document

Kind = Literal["number", "negation", "name", "direction"]
KINDS: tuple[Kind, ...] = ("number", "negation", "name")
VERBATIM = 0.2
# A name of the title that the text uses so often within its sentences is what it is about.
_OFTEN = 5


@dataclass(frozen=True)
class Made:
    """A sentence, the passage it should be judged by, and whether that supports it."""

    sentence: str
    passage: str
    about: str
    supported: bool
    kind: str
    original: str


@dataclass(frozen=True)
class _Found:
    sentence: str
    passage: str
    about: str
    document: int
    subjects: tuple[str, ...]


def documents_of(corpus: Path) -> Iterator[Document]:
    """The documents of a BEIR folder, or of a folder of files that ragcli reads."""
    lines = corpus / "corpus.jsonl"
    if lines.is_file():
        with lines.open("rb") as stream:
            yield from (each for each in read_jsonl(stream, lines.name) if isinstance(each, Document))
        return
    for file in discover([corpus]).files:
        try:
            yield from read_file(file.path)
        except DocumentError:
            continue


def made_sentences(
    corpus: Path, count: int, *, seed: int, kinds: Sequence[Kind] = KINDS, unrelated: int = 0
) -> list[Made]:
    """`count` supported sentences, as many with one changed fact, and `unrelated` ones that stand elsewhere."""
    chance = random.Random(seed)
    found, names = _sentences(corpus, chance)
    made: list[Made] = []
    for supported in (True, False):
        for number, kind in enumerate(kinds):
            wanted = count // len(kinds) + (number < count % len(kinds))
            while wanted and found:
                each = found.pop()
                if kind not in _kinds(each.sentence):
                    continue
                said = _about(said_otherwise(each.sentence, chance), each, chance)
                if not supported:
                    said = _changed(said, kind, each, names[each.document], chance)
                elif kind not in _kinds(said):
                    continue
                if not said or (said == each.sentence and not supported):
                    continue
                made.append(Made(said, each.passage, each.about, supported, kind, each.sentence))
                wanted -= 1
    for _ in range(unrelated):
        each, other = found.pop(), found[-1]
        if each.sentence not in other.passage:
            said = said_otherwise(each.sentence, chance)
            made.append(Made(said, other.passage, other.about, False, "unrelated", each.sentence))
    return made


def _sentences(corpus: Path, chance: random.Random) -> tuple[list[_Found], dict[int, list[str]]]:
    found: list[_Found] = []
    names: dict[int, list[str]] = {}
    for number, document in enumerate(documents_of(corpus)):
        counts = Counter(_NAME.findall(document.text))
        names[number] = sorted(set(counts) - _NO_NAMES)
        title = set(re.findall(r"[\w-]+", document.title or ""))
        subjects = tuple(name for name in names[number] if name in title and counts[name] >= _OFTEN)
        mine = []
        for chunk in chunk_document(document):
            passage = document.text[chunk.start : chunk.end]
            about = " › ".join(part for part in (document.title, chunk.heading) if part)
            for start, end in sentence_spans(passage):
                sentence = " ".join(passage[start:end].split())
                if start and end < len(passage) and _usable(sentence):
                    mine.append(_Found(sentence, passage, about, number, subjects))
        chance.shuffle(mine)
        # The overlap of two chunks is read once, and no document is heard more than others.
        found += list({each.sentence: each for each in mine}.values())[:40]
    chance.shuffle(found)
    return found, names


_STARTS = re.compile(r"[A-Z][a-z]*[ ,]")
_NO_PROSE = re.compile(r"[=<>{}|\\^~@#]|\.\.|\bet al\b|[Ff]ig\b|[Tt]able \d")


def _usable(sentence: str) -> bool:
    if not (60 <= len(sentence) <= 320 and sentence.endswith(".") and _STARTS.match(sentence)):
        return False
    letters = sum(character.isalpha() or character == " " for character in sentence)
    return letters >= 0.85 * len(sentence) and not _NO_PROSE.search(sentence) and len(sentence.split()) >= 9


# Not the number of a reference in brackets.
_NUMBER = re.compile(r"(?<![\w.,/–-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w,/–-]|\.\d)(?![^\[\]]*\])")
_NAME = re.compile(r"(?<![.!?:“\"(] )(?<=[a-z,] )(?:[A-Z][A-Za-z]*[A-Z0-9][A-Za-z0-9-]*|[A-Z][a-z]{3,})(?![\w-])")
_NO_NAMES = {"Figure", "Table", "Section", "Sections", "Chapter", "Theorem", "Lemma", "Equation", "Appendix", "The"}
# Headings inside an abstract.
_NO_NAMES |= {"METHODS", "RESULTS", "CONCLUSION", "CONCLUSIONS", "OBJECTIVE", "OBJECTIVES", "BACKGROUND", "DESIGN"}
_DENIED = re.compile(r"\b(not|no|without|cannot|never)\b")
_DENIABLE = re.compile(
    r"\b(is|are|was|were|can|could|will|would|should|may|might|must|does|do|did|has been|have been|had been)\b"
    r"(?! not\b|['’])"
)


_TURNED = (
    "increase/decrease; increases/decreases; increased/decreased; increasing/decreasing; higher/lower; more/less; "
    "greater/smaller; larger/smaller; better/worse; faster/slower; before/after; above/below; positive/negative; "
    "stronger/weaker; longer/shorter; high/low; maximum/minimum; always/never; improve/worsen; improved/worsened; "
    "reduces/increases; reduced/increased; reduce/increase; early/late; presence/absence; with/without"
)
_PAIRS = [tuple(pair.strip().split("/")) for pair in _TURNED.split(";")]
_TURN = {**{other: one for one, other in _PAIRS}, **dict(_PAIRS)}
_DIRECTED = re.compile(rf"\b(?:{'|'.join(word for word in _TURN if word not in ('with', 'without', 'never'))})\b")


def _kinds(sentence: str) -> set[Kind]:
    kinds: set[Kind] = set()
    if _NUMBER.search(sentence):
        kinds.add("number")
    if _DENIED.search(sentence) or _DENIABLE.search(sentence):
        kinds.add("negation")
    if set(_NAME.findall(sentence)) - _NO_NAMES:
        kinds.add("name")
    if _DIRECTED.search(sentence):
        kinds.add("direction")
    return kinds


def said_otherwise(sentence: str, chance: random.Random) -> str:
    """The sentence in other words, by up to three of the rules that apply to it."""
    if chance.random() < VERBATIM:
        return sentence
    rules = list(_RULES)
    chance.shuffle(rules)
    applied = 0
    for rule in rules:
        changed = rule(sentence, chance)
        if changed != sentence and len(changed) > 30:
            sentence, applied = changed, applied + 1
        if applied == 3:
            break
    return sentence


_OPENING = re.compile(
    r"(In|For|With|At|By|After|Before|During|Since|Because|If|When|While|Although|As|On|From|To|Under) "
    r"([^,;:]{4,70}), ([a-z].+)\."
)
_CLOSING = re.compile(r"([A-Z][^,;:]{20,}),? (because|if|when|although|while|since|after|before) ([^,;:]{12,})\.")


def _opening_last(sentence: str, _: random.Random) -> str:
    if found := _OPENING.fullmatch(sentence):
        return f"{_capital(found[3])} {found[1].lower()} {found[2]}."
    return sentence


def _closing_first(sentence: str, _: random.Random) -> str:
    if found := _CLOSING.fullmatch(sentence):
        return f"{_capital(found[2])} {found[3]}, {_small(found[1])}."
    return sentence


_CONNECTING = re.compile(
    r"^(?:However|Moreover|Furthermore|Therefore|Thus|Hence|Also|In addition|Finally|Indeed|In fact|For example|"
    r"In particular|Similarly|Additionally|Consequently|As a result), "
)
_ADVERB = re.compile(
    r" (?:also|very|quite|rather|simply|clearly|indeed|actually|typically|generally|highly|relatively|currently|"
    r"recently|easily|directly|fully|therefore|thus|however|essentially|basically|naturally|obviously|then|still)(?= )"
)
_ASIDE = re.compile(r" \([^()]{2,60}\)(?=[ ,.;:])")


def _no_connecting(sentence: str, _: random.Random) -> str:
    return _capital(_CONNECTING.sub("", sentence))


def _no_adverbs(sentence: str, _: random.Random) -> str:
    return _ADVERB.sub("", sentence)


def _no_aside(sentence: str, _: random.Random) -> str:
    return _ASIDE.sub("", sentence)


_IN_OTHER_WORDS = (
    "uses/employs; used/employed; using/employing; show/demonstrate; shows/demonstrates; "
    "showed/demonstrated; shown/demonstrated; method/approach; methods/approaches; many/numerous; "
    "often/frequently; require/need; requires/needs; required/needed; obtain/get; obtained/got; "
    "begin/start; begins/starts; allow/enable; allows/enables; allowed/enabled; important/crucial; "
    "entire/whole; several/various; large/big; help/aid; due to/because of; in order to/to; such as/like; "
    "found/discovered; near/close to; determine/establish; determined/established; examine/study; "
    "examined/studied; provide/offer; provides/offers; provided/offered; choose/select; chosen/selected; "
    "produce/generate; produces/generates; produced/generated; need/require"
)
_SYNONYMS = dict(pair.strip().split("/") for pair in _IN_OTHER_WORDS.split(";"))
_SYNONYM = re.compile(rf"\b(?:{'|'.join(sorted(_SYNONYMS, key=len, reverse=True))})\b")


def _synonyms(sentence: str, chance: random.Random) -> str:
    return _SYNONYM.sub(lambda found: _SYNONYMS[found[0]] if chance.random() < 0.7 else found[0], sentence)


_TAIL = re.compile(r"([^;:]{60,}), (?:which|whose|forming|making|allowing|so that|while|whereas|although) [^;:]{15,}\.")


def _first_part(sentence: str, _: random.Random) -> str:
    found = _TAIL.fullmatch(sentence)
    return f"{found[1]}." if found else sentence


def _authors(sentence: str, _: random.Random) -> str:
    said = re.sub(r"^We\b", "The authors", sentence)
    said = re.sub(r"\bwe\b", "they", said)
    return re.sub(r"\bour\b", "their", re.sub(r"^Our\b", "Their", said))


_IN_WORDS = {"2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "7": "seven", "8": "eight", "9": "nine"}
_IN_DIGITS = {word: digit for digit, word in _IN_WORDS.items()}


def _numbers(sentence: str, _: random.Random) -> str:
    said = re.sub(r"(?<=\d),(?=\d{3}\b)", "", sentence)
    said = re.sub(r"(?<=\d) ?%", " percent", said)
    said = re.sub(rf"\b(?:{'|'.join(_IN_DIGITS)})\b", lambda found: _IN_DIGITS[found[0]], said)
    if said == sentence:
        said = re.sub(r"(?<=[a-z] )([2-9])(?= [a-z])", lambda found: _IN_WORDS[found[1]], sentence)
    return said


_RULES: Sequence[Callable[[str, random.Random], str]] = (
    *(
        _opening_last,
        _closing_first,
        _no_connecting,
        _no_adverbs,
        _no_aside,
        _synonyms,
        _authors,
        _numbers,
        _first_part,
    ),
)


def _changed(sentence: str, kind: Kind, found: _Found, names: Sequence[str], chance: random.Random) -> str:
    """The sentence with one fact changed, or nothing where that cannot be."""
    match kind:
        case "number":
            return _other_number(sentence, found.passage, chance)
        case "negation":
            return _denied(sentence, chance)
        case "direction":
            return _turned(sentence, chance)
        case "name":
            return _other_name(sentence, found.passage, names, chance)


def _turned(sentence: str, chance: random.Random) -> str:
    places = list(_DIRECTED.finditer(sentence))
    if not places:
        return ""
    place = chance.choice(places)
    return sentence[: place.start()] + _TURN[place[0]] + sentence[place.end() :]


def _about(sentence: str, found: _Found, chance: random.Random) -> str:
    """Now and then, say what a sentence is about: "In MapReduce, the master pings every worker." """
    names = [name for name in found.subjects if name not in sentence]
    if not names or chance.random() > 0.5 or " we " in sentence or sentence.startswith(("We ", "In ")):
        return sentence
    return f"In {chance.choice(names)}, {_small(sentence)}"


def _other_number(sentence: str, passage: str, chance: random.Random) -> str:
    places = list(_NUMBER.finditer(sentence))
    if not places:
        return ""
    place = chance.choice(places)
    mine = {number.replace(",", "") for number in _NUMBER.findall(sentence)}
    others = sorted(number for number in set(_NUMBER.findall(passage)) if number.replace(",", "") not in mine)
    if others and chance.random() < 0.5:
        return sentence[: place.start()] + chance.choice(others) + sentence[place.end() :]
    digits = [at for at, character in enumerate(place[0]) if character.isdigit()]
    at = chance.choice(digits[:2])
    other = chance.choice([digit for digit in "123456789" if digit != place[0][at]])
    return sentence[: place.start()] + place[0][:at] + other + place[0][at + 1 :] + sentence[place.end() :]


def _denied(sentence: str, chance: random.Random) -> str:
    if denied := _DENIED.search(sentence):
        instead = {"no": "a", "without": "with", "cannot": "can", "never": "always", "not": ""}[denied[1]]
        said = sentence[: denied.start()] + instead + sentence[denied.end() :]
        return _capital(re.sub(r" {2,}", " ", said).strip())
    places = list(_DENIABLE.finditer(sentence))
    if not places:
        return ""
    place = chance.choice(places)
    verb = place[1]
    said = (
        "has not been" if verb == "has been" else verb.replace(" been", " not been") if " " in verb else f"{verb} not"
    )
    return sentence[: place.start()] + said.replace("can not", "cannot") + sentence[place.end() :]


def _other_name(sentence: str, passage: str, names: Sequence[str], chance: random.Random) -> str:
    places = [place for place in _NAME.finditer(sentence) if place[0] not in _NO_NAMES]
    if not places:
        return ""
    place = chance.choice(places)
    here = _letters(place[0])
    others = [
        name
        for name in names
        if name.lower() not in sentence.lower() and not _letters(name).startswith(here) and _letters(name) not in here
    ]
    inside = [name for name in others if name in passage]
    if inside and chance.random() < 0.3:
        others = inside
    if not others:
        return ""
    return sentence[: place.start()] + chance.choice(others) + sentence[place.end() :]


def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _small(text: str) -> str:
    first = text.split(" ", 1)[0]
    return text[:1].lower() + text[1:] if first in _COMMON_STARTS else text


_COMMON_STARTS = {
    *(
        "The",
        "This",
        "These",
        "That",
        "Those",
        "It",
        "In",
        "We",
        "They",
        "There",
        "A",
        "An",
        "For",
        "At",
        "One",
        "Each",
    ),
    *("Such", "Our", "Their", "Its", "All", "Most", "Many", "Some", "Both", "Any", "No", "Every", "If", "When", "He"),
}
