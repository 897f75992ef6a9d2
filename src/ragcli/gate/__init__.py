"""Whether what was found is enough to answer a question, and what to say when it is not.

`ragcli.gate.ask.ask` searches, judges and retries; `open_judge` gives the judges it takes, `gather_evidence` what they
judge.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ragcli.gate.values import Decision, JudgeName, Preset, Reason, Verdict

if TYPE_CHECKING:
    from ragcli.gate.evidence import Evidence, Judge, gather_evidence
    from ragcli.gate.judges import open_judge
    from ragcli.gate.trace import AskResult, Attempt, Trace

__all__ = [
    "AskResult",
    "Attempt",
    "Decision",
    "Evidence",
    "Judge",
    "JudgeName",
    "Preset",
    "Reason",
    "Trace",
    "Verdict",
    "gather_evidence",
    "open_judge",
]

# Imported when first asked for: arrays are not needed to know what a verdict is.
_WHERE: Final = MappingProxyType(
    {
        "AskResult": "trace",
        "Attempt": "trace",
        "Evidence": "evidence",
        "Judge": "evidence",
        "Trace": "trace",
        "gather_evidence": "evidence",
        "open_judge": "judges",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
