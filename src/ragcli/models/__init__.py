"""Find, download and load encoders and rerankers.

Importing this package costs numpy and nothing more; each engine's library is loaded by the function that needs it,
and so is what `ragcli models` alone uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragcli.lazy_exports import lazy_exports
from ragcli.models.engine_interface import Encoder, Encoding, Engine, FloatArray, IntArray, TextReranker
from ragcli.models.model_loading import cross_encoder_available, load_encoder, load_reranker
from ragcli.models.model_lookup import DEFAULT_CROSS_ENCODER, DEFAULT_ENCODER, LocalModel, find_model
from ragcli.types import Notify

if TYPE_CHECKING:
    from ragcli.models.model_inventory import ModelListing, list_models, model_path, pull

__all__ = [
    "DEFAULT_CROSS_ENCODER",
    "DEFAULT_ENCODER",
    "Encoder",
    "Encoding",
    "Engine",
    "FloatArray",
    "IntArray",
    "LocalModel",
    "ModelListing",
    "Notify",
    "TextReranker",
    "cross_encoder_available",
    "find_model",
    "list_models",
    "load_encoder",
    "load_reranker",
    "model_path",
    "pull",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "model_inventory": "ModelListing list_models model_path pull",
    },
)
