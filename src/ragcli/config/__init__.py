"""What a person may settle once in a `collections.toml` instead of typing it again.

The file is found in the current folder, then in the user's configuration folder, or named by `--config`; the
first one found is the only one read, so that a reader of it sees the whole truth. Every key has a type and a
meaning here, in one place (`keys.py`); anything else in the file is an error that names file, key and line,
because a mistyped key that is silently ignored costs an afternoon.

A file found in the current folder may be a stranger's. Until the user has trusted it (`trust.py`), what reaches
beyond its own folder (`guards.py`) is withheld.
"""

from ragcli.config.asking import AskDefaults
from ragcli.config.guards import Demand, KeyPath
from ragcli.config.keys import known_keys
from ragcli.config.language import LanguageModelDefaults
from ragcli.config.load import (
    CONFIG_NAME,
    CollectionConfig,
    Config,
    QueryDefaults,
    find_config,
    load_config,
    names_data_dir,
    read_as_found,
    resolve_data_dir,
)

__all__ = [
    "CONFIG_NAME",
    "AskDefaults",
    "CollectionConfig",
    "Config",
    "Demand",
    "KeyPath",
    "LanguageModelDefaults",
    "QueryDefaults",
    "find_config",
    "known_keys",
    "load_config",
    "names_data_dir",
    "read_as_found",
    "resolve_data_dir",
]
