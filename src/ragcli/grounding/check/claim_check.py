"""Check a draft: each claim against the passages of what it cites, or of a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from ragcli.errors import LanguageModelError, UsageError
from ragcli.grounding.check.bibliography import Bibliography, BibliographyEntry
from ragcli.grounding.check.draft_parser import Draft, DraftSentence
from ragcli.grounding.faithfulness.claims import Claim, EvidencePassage, FaithfulnessJudge, Support
from ragcli.grounding.faithfulness.facts import Facts, facts_of
from ragcli.retrieval.request import MAX_ENCODED_CHARS, QueryRequest
from ragcli.types import NO_ENCODER

if TYPE_CHECKING:
    from ragcli.engines import CollectionReader
    from ragcli.models import FloatArray
    from ragcli.retrieval.searcher import Searcher
    from ragcli.types import StoredChunk

CheckVerdict = Literal["supported", "elsewhere", "unsupported"]
_FEWEST_CHUNKS: Final = 3
_SHARE_OF_CHUNKS: Final = 0.1
PASSAGES_PER_CLAIM: Final = 5
"""Passages that a sentence is held against."""


@dataclass(frozen=True, slots=True)
class CheckedSentence:
    """A sentence of a draft and what became of it.

    `support` says how well the best passage, `chunk`, supports it. `verdict` is `elsewhere` when what it cites does
    not support it and `chunk` of another document does. `unknown` are citations that name no document here; `searched`
    says that the passages were found by a search, because nothing cited is here. `judge` is who judged.
    """

    sentence: DraftSentence
    verdict: CheckVerdict
    support: Support
    chunk: StoredChunk | None
    page: int | None
    unknown: tuple[str, ...]
    searched: bool
    judge: str


def check_draft(
    searcher: Searcher,
    draft: Draft,
    judge: FaithfulnessJudge,
    *,
    passages: int = PASSAGES_PER_CLAIM,
    request: QueryRequest | None = None,
    fallback: FaithfulnessJudge | None = None,
    notify: Callable[[str], None] | None = None,
) -> Iterator[CheckedSentence]:
    """Each sentence's verdict, in order, as it is reached.

    `request` says how to search where a sentence cites nothing that is here (its text is replaced). When the judge
    is a language model that fails, `fallback` judges that sentence and all after it, and `notify` is told once.
    """
    if passages < 1:
        raise UsageError(f"A sentence is held against at least 1 passage, not {passages}.")
    check = _DraftCheck(searcher, draft, judge, passages, request or QueryRequest("-"), fallback, notify)
    for sentence in draft.sentences:
        yield check.of(sentence)


@dataclass(frozen=True, slots=True)
class _CitedDocument:
    """A cited document: its chunks, the words of each, and the names that it speaks of all the time."""

    chunks: tuple[StoredChunk, ...]
    words: tuple[frozenset[str], ...]
    subjects: str


def _read(chunks: tuple[StoredChunk, ...]) -> _CitedDocument:
    words, names = [], Counter[str]()
    for chunk in chunks:
        facts = facts_of(chunk.text)
        words.append(facts.stems | facts.run_together)
        names.update({word.written for word in facts.words if word.name})
    often = max(_FEWEST_CHUNKS, len(chunks) * _SHARE_OF_CHUNKS)
    # A passage deep in a paper on Raft says "the leader"; whoever writes about it says "Raft's leader".
    return _CitedDocument(chunks, tuple(words), " ".join(name for name, count in names.items() if count >= often))


class _DraftCheck:
    def __init__(
        self,
        searcher: Searcher,
        draft: Draft,
        judge: FaithfulnessJudge,
        passages: int,
        request: QueryRequest,
        fallback: FaithfulnessJudge | None,
        notify: Callable[[str], None] | None,
    ) -> None:
        self._searcher = searcher
        self._draft = draft
        self._judge = judge
        self._passages = passages
        self._request = request
        self._fallback = fallback
        self._notify = notify
        self._library = Bibliography(searcher.readers)
        self._readers = {reader.name: reader for reader in searcher.readers}
        self._documents: dict[tuple[str, str], _CitedDocument] = {}

    def of(self, sentence: DraftSentence) -> CheckedSentence:
        cited: dict[tuple[str, str], tuple[BibliographyEntry, set[int]]] = {}
        unknown = []
        for citation in sentence.citations:
            entries = self._library.cited(citation, self._draft.references)
            if not entries:
                unknown.append(citation.written)
            for entry in entries:
                key = (entry.reader.name, entry.row.document_id)
                pages = cited.setdefault(key, (entry, set()))[1]
                if citation.page is not None:
                    pages.add(citation.page)
        chosen = self._of_cited(sentence.claim, list(cited.values()))
        own = self._judged(sentence.claim, chosen) if chosen else None
        if own is not None and own[0].supported:
            return self._checked(sentence, "supported", own, unknown, searched=False)
        found = self._judged(sentence.claim, self._found(sentence.claim))
        if own is None:
            verdict: CheckVerdict = "supported" if found[0].supported else "unsupported"
            return self._checked(sentence, verdict, found, unknown, searched=True)
        if found[0].supported:
            return self._checked(sentence, "elsewhere", found, unknown, searched=False)
        return self._checked(sentence, "unsupported", own, unknown, searched=False)

    def _checked(
        self,
        sentence: DraftSentence,
        verdict: CheckVerdict,
        judged: tuple[Support, StoredChunk | None],
        unknown: Sequence[str],
        *,
        searched: bool,
    ) -> CheckedSentence:
        support, chunk = judged
        page = self._readers[chunk.collection].page_of(chunk, support.start) if chunk is not None else None
        return CheckedSentence(sentence, verdict, support, chunk, page, tuple(unknown), searched, self._judge.name)

    def _judged(self, claim: str, candidates: Sequence[tuple[StoredChunk, str]]) -> tuple[Support, StoredChunk | None]:
        whole = Claim(claim, tuple(EvidencePassage(chunk.text, about) for chunk, about in candidates))
        try:
            (support,) = self._judge.judge([whole])
        except LanguageModelError as error:
            if self._fallback is None:
                raise
            if self._notify is not None:
                self._notify(f"{error} From here on the judge is '{self._fallback.name}'.")
            self._judge, self._fallback = self._fallback, None
            (support,) = self._judge.judge([whole])
        return support, candidates[support.passage][0] if support.passage is not None else None

    def _found(self, claim: str) -> list[tuple[StoredChunk, str]]:
        request = replace(self._request, text=claim[:MAX_ENCODED_CHARS], top=self._passages)
        return [
            (hit.chunk, " › ".join(part for part in (hit.chunk.title, hit.chunk.heading, hit.chunk.source) if part))
            for hit in self._searcher.query(request).hits
        ]

    def _of_cited(
        self, claim: str, cited: Sequence[tuple[BibliographyEntry, set[int]]]
    ) -> list[tuple[StoredChunk, str]]:
        """The passages of the documents cited that come nearest to the claim, those of a page that is named first."""
        known = facts_of(claim)
        scored: list[tuple[float, StoredChunk, str]] = []
        for entry, pages in cited:
            document = self._of_document(entry)
            near = self._nearness(claim, known, entry.reader, document)
            for chunk, score in zip(document.chunks, near, strict=True):
                about = " › ".join(part for part in (entry.about, document.subjects, chunk.heading) if part)
                scored.append((score + (1.0 if _on_page(chunk, pages) else 0.0), chunk, about))
        scored.sort(key=lambda each: -each[0])
        return [(chunk, about) for _, chunk, about in scored[: self._passages]]

    def _of_document(self, entry: BibliographyEntry) -> _CitedDocument:
        key = (entry.reader.name, entry.row.document_id)
        if key not in self._documents:
            self._documents[key] = _read(entry.reader.document_chunks(entry.row.document_id))
        return self._documents[key]

    def _nearness(self, claim: str, known: Facts, reader: CollectionReader, document: _CitedDocument) -> list[float]:
        """From 0 to about 2: the share of the claim's words that each chunk has, and the cosine of their vectors."""
        chunks, telling = document.chunks, known.telling
        shares = [
            sum(word.stem in there or word.folded in there for word in telling) / max(len(telling), 1)
            for there in document.words
        ]
        if reader.settings.encoder == NO_ENCODER or not chunks:
            return shares
        vector: FloatArray = self._searcher.encoder(reader.settings.encoder).encode([claim[:MAX_ENCODED_CHARS]])[0]
        cosines: list[float] = (reader.vectors([chunk.number for chunk in chunks]) @ vector).tolist()
        return [share + cosine for share, cosine in zip(shares, cosines, strict=True)]


def _on_page(chunk: StoredChunk, pages: set[int]) -> bool:
    if not pages or chunk.page_start is None:
        return False
    return any(chunk.page_start <= page <= (chunk.page_end or chunk.page_start) for page in pages)
