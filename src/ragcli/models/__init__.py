"""Models: found on this machine, made quick once, behind two small protocols.

Importing this package costs numpy and nothing more; each engine's library is loaded by the function that needs it,
and so is what `ragcli models` alone uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ragcli.models.find import DEFAULT_CROSS_ENCODER, DEFAULT_ENCODER, FoundModel, find_model
from ragcli.models.load import cross_encoder_available, load_encoder, load_reranker
from ragcli.models.protocols import Encoder, Encoding, Engine, FloatArray, IntArray, Notify, TextReranker
from ragcli.models.rerank import choose_reranker

if TYPE_CHECKING:
    from ragcli.models.catalogue import ModelListing as ModelListing
    from ragcli.models.catalogue import list_models as list_models
    from ragcli.models.catalogue import model_path as model_path
    from ragcli.models.catalogue import pull as pull

__all__ = [
    "DEFAULT_CROSS_ENCODER",
    "DEFAULT_ENCODER",
    "Encoder",
    "Encoding",
    "Engine",
    "FloatArray",
    "FoundModel",
    "IntArray",
    "ModelListing",
    "Notify",
    "TextReranker",
    "choose_reranker",
    "cross_encoder_available",
    "find_model",
    "list_models",
    "load_encoder",
    "load_reranker",
    "model_path",
    "pull",
]


def __getattr__(name: str) -> object:
    if name not in ("ModelListing", "list_models", "model_path", "pull"):
        raise AttributeError(f"module 'ragcli.models' has no attribute '{name}'")
    return getattr(import_module("ragcli.models.catalogue"), name)
