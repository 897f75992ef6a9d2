"""Configuration from `collections.toml`.

The file is found in the current folder, then in the user's configuration folder, or named by `--config`; the first
one found is the only one read, so that a reader of it sees the whole truth. Every key has a type and a meaning in one
place (`config_keys`); anything else in the file is an error that names file, key and line. A file found in the
current folder may be a stranger's: until the user has trusted it, what reaches beyond its own folder (`trust_policy`)
is withheld.
"""

from __future__ import annotations

from ragcli.config.config_keys import known_config_keys
from ragcli.config.config_loader import (
    CONFIG_NAME,
    CollectionConfig,
    Config,
    LanguageModelDefaults,
    data_dir_in_environment,
    find_config,
    load_config,
    load_untrusted_config,
    resolve_data_dir,
)
from ragcli.config.trust_policy import KeyPath, TrustDemand

__all__ = [
    "CONFIG_NAME",
    "CollectionConfig",
    "Config",
    "KeyPath",
    "LanguageModelDefaults",
    "TrustDemand",
    "data_dir_in_environment",
    "find_config",
    "known_config_keys",
    "load_config",
    "load_untrusted_config",
    "resolve_data_dir",
]
