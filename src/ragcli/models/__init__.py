"""Models: found on this machine, made quick once, behind two small protocols.

Importing this package costs numpy and nothing more; each engine's library is loaded by the function that needs it.
"""

from __future__ import annotations

from ragcli.models.catalogue import ModelListing, list_models, model_path, pull
from ragcli.models.find import DEFAULT_CROSS_ENCODER, DEFAULT_ENCODER, FoundModel, find_model
from ragcli.models.load import cross_encoder_available, load_encoder, load_reranker
from ragcli.models.protocols import Encoder, Encoding, Engine, FloatArray, IntArray, Notify, TextReranker
from ragcli.models.rerank import choose_reranker, late_scores

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
    "late_scores",
    "list_models",
    "load_encoder",
    "load_reranker",
    "model_path",
    "pull",
]
