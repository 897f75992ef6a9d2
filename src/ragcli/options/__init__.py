"""Every option once: name, kind, range, default, help and surfaces.

Keys of the configuration, fields of a request, flags with their help, options of an evaluation's pipelines and
completion derive from the entries of `query_options` and `command_options`. A new option of queries is one entry
there, a field of `QueryRequest`, and the code that acts on it.
"""

from ragcli.options.option_error import OptionError
from ragcli.options.option_model import Option, OptionGroup, OptionValues

__all__ = ["Option", "OptionError", "OptionGroup", "OptionValues"]
