"""Collections as agent sources: each name a retriever, opened at first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragcli.agent.data_model import LowLevelQuery, Result, SubTask
from ragcli.agent.roles import Formulator, identity_formulator
from ragcli.errors import UsageError
from ragcli.models.model_loading import LoadedModelCache
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import EngineName, Searcher
from ragcli.types import Notify

if TYPE_CHECKING:
    from ragcli.collection import Collection

RETRIEVER_TOP: Final = 10
"""Hits that a collection gives for one query, unless told otherwise."""

CollectionOpener = Callable[[str], "Collection"]
_PARAMS: Final = frozenset(each.name for each in fields(QueryRequest)) - {"text"}


@dataclass(frozen=True, slots=True)
class CollectionRetriever:
    """A retriever over one collection. `defaults` are fields of a QueryRequest that hold for every query.

    `together` are collections, by name, that it can search in one pool with its own when a query says so.
    """

    collection: Collection
    defaults: Mapping[str, Any] = field(default_factory=dict)
    engine: EngineName = "auto"
    notify: Notify | None = None
    models: LoadedModelCache = field(default_factory=LoadedModelCache)
    together: Mapping[str, Collection] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self.defaults)

    def __call__(self, query: str, *, among: Sequence[str] = (), **params: Any) -> list[Result]:
        """The collection's hits for the query, best first; `params` go before the defaults.

        With `among`, those of the named collections, which compete in one pool as in `ragcli query`, so that their
        scores can be compared. Raises UsageError for a parameter that no QueryRequest has, or a collection that it
        was not given; CollectionError or ModelUnavailable.
        """
        request = self.request(query, **params)
        with self.searcher(among) as searcher:
            hits = searcher.query(request).hits
        return [replace(hit, origin=hit.chunk.collection) for hit in hits]

    def request(self, query: str, **params: Any) -> QueryRequest:
        """The request that a query with these parameters is."""
        _check(params)
        return QueryRequest(query, **{"top": RETRIEVER_TOP, **self.defaults, **params})

    def searcher(self, among: Sequence[str] = ()) -> Searcher:
        """A searcher over the collection, or those named, as they are now, with the shared models."""
        known = {self.collection.name: self.collection, **self.together}
        if missing := [name for name in among if name not in known]:
            raise UsageError(f"{missing[0]} cannot be searched together with {self.collection.name}.")
        chosen = [known[name] for name in dict.fromkeys(among)] or [self.collection]
        return Searcher(chosen, engine=self.engine, notify=self.notify, models=self.models)


def as_retriever(
    collection: Collection | str,
    *,
    data_dir: Path | None = None,
    tenant: str | None = None,
    engine: EngineName | None = None,
    notify: Notify | None = None,
    models: LoadedModelCache | None = None,
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
    return CollectionRetriever(handle, defaults, engine or _engine(), notify, models or LoadedModelCache())


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
    models = LoadedModelCache()
    chosen = names or list_collections(_data_dir(data_dir))
    return share_searcher(
        {name: as_retriever(opened(name), engine=engine, notify=notify, models=models, **defaults) for name in chosen}
    )


def share_searcher(sources: Mapping[str, CollectionRetriever]) -> dict[str, CollectionRetriever]:
    """The same sources, each able to search the others together with its own."""
    handles = {each.collection.name: each.collection for each in sources.values()}
    return {name: replace(each, together=handles) for name, each in sources.items()}


def ask_all_sources(formulator: Formulator = identity_formulator) -> Formulator:
    """A formulator that asks each query once, of all the sub-task's collections in one pool.

    Instead of a ranking for each collection, merged by rank, there is one over all of them, and its scores can be
    compared: with thirty collections, the best ten passages are not the best of ten collections. It is for sources
    that `collection_sources` or `joined` made, with `score_reranker` to merge rounds and sub-tasks.
    """

    def together(task: SubTask, source: str) -> list[LowLevelQuery]:
        if source != task.sources[0]:
            return []
        return [
            LowLevelQuery(source, each.query, {"among": task.sources, **each.params})
            for each in formulator(task, source)
        ]

    return together


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
        as_retriever,
        data_dir=data_dir,
        tenant=tenant,
        engine=engine,
        notify=notify,
        models=LoadedModelCache(),
        **defaults,
    )
    return CollectionsView(_data_dir(data_dir), make)


def _opener(data_dir: Path | None, tenant: str | None, notify: Notify | None) -> CollectionOpener:
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
