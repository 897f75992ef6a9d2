"""Protocol of an open search, as query techniques, rerankers and judges use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ragcli.engines import CollectionReader
    from ragcli.models import Encoder, TextReranker
    from ragcli.retrieval.request import DeepRanking, QueryRequest, QueryResult


class SearchSession(Protocol):
    """One committed state of some collections, with the models to search it. `ragcli.retrieval.searcher.Searcher` is
    the implementation; what takes part in a search depends on this protocol alone."""

    @property
    def readers(self) -> tuple[CollectionReader, ...]:
        """The state of each collection that is searched."""
        ...

    def query(self, request: QueryRequest) -> QueryResult:
        """Ranked hits for one question."""
        ...

    def ranking(self, request: QueryRequest, *, chunks: int = 0, documents: int = 0) -> DeepRanking:
        """The order that the hits are cut from, down to so many chunks of so many documents."""
        ...

    def encoder(self, name: str) -> Encoder:
        """The encoder of that name. Raises ModelUnavailable."""
        ...

    def reranker(self, name: str, key_env: str | None = None) -> TextReranker:
        """The reranker of that name or address. Raises ModelUnavailable."""
        ...
