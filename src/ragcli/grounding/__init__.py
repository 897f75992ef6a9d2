"""Grounding: do the passages found answer the question, and do they support what is said?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragcli.grounding.sufficiency.evidence import AnswerVerdict, Decision, Preset, ReasonCode, SufficiencyJudgeName
from ragcli.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ragcli.grounding.ask import AskResult, AskTrace, SearchAttempt
    from ragcli.grounding.judge_registry import open_judge
    from ragcli.grounding.sufficiency.evidence import Evidence, SufficiencyJudge, gather_evidence

__all__ = [
    "AnswerVerdict",
    "AskResult",
    "AskTrace",
    "Decision",
    "Evidence",
    "Preset",
    "ReasonCode",
    "SearchAttempt",
    "SufficiencyJudge",
    "SufficiencyJudgeName",
    "gather_evidence",
    "open_judge",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "ask": "AskResult AskTrace SearchAttempt",
        "judge_registry": "open_judge",
        "sufficiency.evidence": "Evidence SufficiencyJudge gather_evidence",
    },
)
