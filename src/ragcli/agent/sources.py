"""ragcli's collections as sources: each name a retriever, opened at once or when it is first asked for.

A retriever opens its collection anew for each query and closes it after. That costs milliseconds, and in return each
query sees the last committed state, no lock is held between two, and any number of them may run at once in as many
threads. Models are loaded once and shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragcli.agent.values import Result
from ragcli.errors import UsageError
from ragcli.models.shelf import ModelShelf
from ragcli.retrieval.query import EngineName, Notify, Searcher
from ragcli.retrieval.request import QueryRequest

if TYPE_CHECKING:
    from ragcli.collection import Collection

TOP: Final = 10
"""Hits that a collection gives for one query, unless told otherwise."""

Open = Callable[[str], "Collection"]
_PARAMS: Final = frozenset(each.name for each in fields(QueryRequest)) - {"text"}


@dataclass(frozen=True, slots=True)
class CollectionRetriever:
    """A retriever over one collection. `defaults` are fields of a QueryRequest that hold for every query."""

    collection: Collection
    defaults: Mapping[str, Any] = field(default_factory=dict)
    engine: EngineName = "auto"
    notify: Notify | None = None
    models: ModelShelf = field(default_factory=ModelShelf)

    def __post_init__(self) -> None:
        _check(self.defaults)

    def __call__(self, query: str, **params: Any) -> list[Result]:
        """The collection's hits for the query, best first; `params` go before the defaults.

        Raises UsageError for a parameter that no QueryRequest has, CollectionError or ModelUnavailable.
        """
        request = self.request(query, **params)
        with self.searcher() as searcher:
            hits = searcher.query(request).hits
        return [replace(hit, origin=self.collection.name) for hit in hits]

    def request(self, query: str, **params: Any) -> QueryRequest:
        """The request that a query with these parameters is."""
        _check(params)
        return QueryRequest(query, **{"top": TOP, **self.defaults, **params})

    def searcher(self) -> Searcher:
        """A searcher over the collection as it is now, with the shared models."""
        return Searcher([self.collection], engine=self.engine, notify=self.notify, models=self.models)


def as_retriever(
    collection: Collection | str,
    *,
    data_dir: Path | None = None,
    tenant: str | None = None,
    engine: EngineName | None = None,
    notify: Notify | None = None,
    models: ModelShelf | None = None,
    **defaults: Any,
) -> CollectionRetriever:
    """One collection, by its handle or its name, as a retriever.

    `defaults` are those fields of a QueryRequest that are to hold for every query, such as `pipeline`, `top` or
    `where`; a query's own parameters go before them. `tenant` is whom it is read for, of a collection that has
    tenants. Raises MissingCollection, TenantNeeded, or UsageError for a field that there is not.
    """
    if isinstance(collection, str):
        handle = _opener(data_dir, tenant, notify)(collection)
    else:
        handle = collection if tenant is None else collection.for_tenant(tenant)
    handle.check_readable()
    return CollectionRetriever(handle, defaults, engine or _engine(), notify, models or ModelShelf())


def collection_sources(
    *names: str,
    data_dir: Path | None = None,
    tenant: str | None = None,
    engine: EngineName | None = None,
    notify: Notify | None = None,
    **defaults: Any,
) -> dict[str, CollectionRetriever]:
    """The named collections, or all there are, as an agent's sources; each is opened now.

    `tenant` and `defaults` hold for every query to every one of them, and errors are as in `as_retriever`.
    """
    from ragcli.collection import list_collections

    opened = _opener(data_dir, tenant, notify)
    models = ModelShelf()
    chosen = names or list_collections(_data_dir(data_dir))
    return {
        name: as_retriever(opened(name), engine=engine, notify=notify, models=models, **defaults) for name in chosen
    }


class CollectionsView(Mapping[str, CollectionRetriever]):
    """The collections of a data folder as they come and go; each is opened when its name is first asked for."""

    def __init__(self, data_dir: Path, make: Callable[[str], CollectionRetriever]) -> None:
        self._data_dir = data_dir
        self._make = make
        self._opened: dict[str, CollectionRetriever] = {}

    def __getitem__(self, name: str) -> CollectionRetriever:
        if name not in self:
            raise KeyError(name)
        if name not in self._opened:
            self._opened[name] = self._make(name)
        return self._opened[name]

    def __contains__(self, name: object) -> bool:
        from ragcli.collection import list_collections

        return name in list_collections(self._data_dir)

    def __iter__(self) -> Iterator[str]:
        from ragcli.collection import list_collections

        return iter(list_collections(self._data_dir))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def collections_view(
    *,
    data_dir: Path | None = None,
    tenant: str | None = None,
    engine: EngineName | None = None,
    notify: Notify | None = None,
    **defaults: Any,
) -> CollectionsView:
    """All collections as an agent's sources, live: one that is made later is there later. Nothing is opened now.

    `tenant` and `defaults` as in `as_retriever`.
    """
    _check(defaults)
    make = partial(
        as_retriever, data_dir=data_dir, tenant=tenant, engine=engine, notify=notify, models=ModelShelf(), **defaults
    )
    return CollectionsView(_data_dir(data_dir), make)


def _opener(data_dir: Path | None, tenant: str | None, notify: Notify | None) -> Open:
    from ragcli.collection import Collection

    folder = _data_dir(data_dir)
    return lambda name: Collection.open(folder, name, tenant=tenant, notify=notify)


def _data_dir(given: Path | None) -> Path:
    from ragcli.config import load_config, resolve_data_dir

    return resolve_data_dir(None, load_config()) if given is None else given


def _engine() -> EngineName:
    from ragcli.config import load_config

    return load_config().engine


def _check(params: Mapping[str, Any]) -> None:
    for name in params:
        if name not in _PARAMS:
            raise UsageError(
                f"A collection's retriever has no parameter '{name}' (it has {', '.join(sorted(_PARAMS))})."
            )
