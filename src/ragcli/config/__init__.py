"""What a person may settle once in a `collections.toml` instead of typing it again.

The file is found in the current folder, then in the user's configuration folder, or named by `--config`; the
first one found is the only one read, so that a reader of it sees the whole truth. Every key has a type and a
meaning here, in one place (`keys.py`); anything else in the file is an error that names file, key and line,
because a mistyped key that is silently ignored costs an afternoon.
"""

from ragcli.config.keys import known_keys
from ragcli.config.load import (
    CONFIG_NAME,
    CollectionConfig,
    Config,
    QueryDefaults,
    find_config,
    load_config,
    resolve_data_dir,
)

__all__ = [
    "CONFIG_NAME",
    "CollectionConfig",
    "Config",
    "QueryDefaults",
    "find_config",
    "known_keys",
    "load_config",
    "resolve_data_dir",
]
