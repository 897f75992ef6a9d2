"""The protocol by which a collection is read: retrieval, grounding and evaluation know nothing else of it.

A reader shows one committed state, whatever writers do meanwhile. A chunk is named by its number, which is the store's
own and never used again; methods take the numbers of live chunks of this state, such as `rank` and `live` return.
CollectionError is raised where stored data are damaged or a chunk is missing; no damaged data are returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection as Container
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from ragcli.array_types import BoolArray, ByteArray, Float32Array, Float64Array, Int32Array, Int64Array
    from ragcli.collection import DocumentRow, DocumentText, MetadataField, Provenance
    from ragcli.filters import Filter
    from ragcli.types import CollectionSettings, StoredChunk

Stage = Literal["bm25", "tfidf", "dense"]


class StageQuery(Protocol):
    """What a first stage looks for. `vector` may cost an encoding, so it is read by the dense stage alone."""

    @property
    def text(self) -> str:
        """The question, for BM25 and TF-IDF."""

    @property
    def vector(self) -> Float32Array:
        """The unit vector (d,) of the dense stage."""

    @property
    def title_weight(self) -> float:
        """How much a BM25 term counts in a title or heading, against 1 in the text; 0 does not search them."""

    @property
    def expansion(self) -> Sequence[tuple[str, float]]:
        """Words that BM25 looks for beside the question's, each with its weight against 1 for a question's word."""


class CollectionReader(Protocol):
    """One committed state of a collection. A context manager; may be handed from thread to thread, not shared."""

    @property
    def name(self) -> str:
        """The collection's name."""

    @property
    def settings(self) -> CollectionSettings:
        """What was fixed when the collection was made."""

    @property
    def chunk_count(self) -> int:
        """Chunks that are alive."""

    @property
    def dimension(self) -> int:
        """d of the vectors; 0 where there are none, by choice or because nothing was embedded yet."""

    @property
    def fingerprint(self) -> str | None:
        """Hash of the weights that made the vectors, None where it is not known."""

    @property
    def has_token_vectors(self) -> bool:
        """Are the sign bits of token vectors kept, so that `token_bits` can be asked?"""

    # First stages and scores.

    def rank(
        self, stage: Stage, query: StageQuery, depth: int, *, where: Filter | None = None, exclude: Container[int] = ()
    ) -> tuple[Int64Array, Float64Array]:
        """The stage's best live chunks and their scores, best first, at most `depth`, each at most once.

        Of chunks whose documents meet `where`, those in `exclude` left out. BM25 and TF-IDF leave out chunks without
        a term of the question; TF-IDF is empty where it was never fitted. Equal scores stand by rising number.
        """

    def scores(self, stage: Stage, query: StageQuery, numbers: Sequence[int] | Int64Array) -> Float64Array:
        """The stage's scores (n,) of chunks, the same that `rank` gives; NaN for TF-IDF that was never fitted."""

    def live(self, numbers: Sequence[int]) -> Int64Array:
        """Those of the numbers that are of live chunks of this state, in the order given."""

    def vectors(self, numbers: Sequence[int] | Int64Array) -> Float32Array:
        """The chunks' unit vectors (n, d)."""

    def token_bits(self, numbers: Sequence[int] | Int64Array) -> tuple[ByteArray, Int64Array]:
        """The chunks' token vectors as sign bits (t, ceil(d / 8)), chunk after chunk, and tokens of each chunk (n,).

        Only where `has_token_vectors`.
        """

    def sample(self, size: int) -> Int64Array:
        """At most `size` live chunks at even distances in the order of numbers; the same ones every time."""

    # Terms and counts.

    def analyze(self, text: str) -> list[str]:
        """The distinct terms that BM25 reads a question as, in order."""

    def document_frequency(self, terms: Sequence[str]) -> Int64Array:
        """In how many chunks' texts each of such terms stands, (t,). Chunks deleted of late may count."""

    def term_presence(self, terms: Sequence[str], numbers: Sequence[int] | Int64Array) -> BoolArray:
        """Which of the terms stand in which chunks, (n, t)."""

    def token_frequency(self, token_ids: Sequence[int] | Int32Array | Int64Array) -> Int64Array:
        """In how many chunks each word piece of the encoder stands, (t,); 0 where that is not known."""

    # Texts and what is known of them.

    def chunks(self, numbers: Sequence[int]) -> dict[int, StoredChunk]:
        """The chunks by number, in the order asked for."""

    def document_numbers(self, numbers: Sequence[int]) -> dict[int, int]:
        """The number of each chunk's document."""

    def provenance(self, numbers: Sequence[int]) -> dict[int, Provenance]:
        """Where each chunk comes from."""

    def dates(self, numbers: Sequence[int]) -> dict[int, float]:
        """When the chunks' documents are from, in seconds since 1970, where that is known."""

    def same_text(self, text_hash: bytes, characters: int) -> list[tuple[int, int, int]]:
        """The chunks of documents whose whole text has that hash and length: number, start and end of each."""

    def document(self, wanted: str) -> DocumentRow:
        """The document with that id, source or path. MissingCollection if there is none."""

    def documents(self, where: Filter | None = None) -> Iterator[DocumentRow]:
        """Every document, or those that meet the filter, by source."""

    def document_chunks(self, document_id: str) -> tuple[StoredChunk, ...]:
        """All chunks of a document, in reading order."""

    def document_texts(self, prefilter: str | None = None, where: Filter | None = None) -> Iterator[DocumentText]:
        """Whole documents in order of ingestion, those that meet the filter.

        With `prefilter`, text as `ragcli.text.text_folding` folds it, at least those whose folded text holds it.
        """

    def find_chunk(self, chunk_id: str) -> StoredChunk | None:
        """The chunk with that id ("document:ordinal"), or None."""

    def neighbours(self, chunk: StoredChunk, around: int) -> tuple[StoredChunk, ...]:
        """The chunk with up to `around` chunks before and after it, in reading order."""

    def page_of(self, chunk: StoredChunk, offset: int) -> int | None:
        """The page that has character `offset` of a chunk; None for a document without pages."""

    # Metadata.

    def prepare(self, where: Filter) -> None:
        """Look a filter up, which the next calls with it need not do. FilterError if it is too large."""

    def unknown_keys(self, where: Filter) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The keys in a filter that no document has; if there are any, also those that documents have."""

    def fields(self, *, examples: int = 3) -> tuple[MetadataField, ...]:
        """The keys that documents' metadata have, by name, with their types and commonest values."""

    # The state itself.

    def structure_bytes(self) -> Mapping[str, int]:
        """Bytes of what each stage reads: `bm25`, `tfidf`, `dense`, and `late` for the token vectors."""

    def close(self) -> None:
        """End the read. Arrays already handed out stay usable."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
