"""The choice between the rerankers."""

from __future__ import annotations

from ragcli.models.find import DEFAULT_CROSS_ENCODER, find_model


def choose_reranker(asked: str) -> str:
    """What `auto` means on this machine: the default cross-encoder where its weights are here, else "late".

    Any other name is returned as it is. Looks at files only, never at the network.
    """
    if asked != "auto":
        return asked
    return DEFAULT_CROSS_ENCODER if find_model(DEFAULT_CROSS_ENCODER) is not None else "late"
