"""Query techniques: other ways to ask a question than as it was typed, and shorter ways to show what was found.

Each technique is a protocol (`steps`), made by rule, from the collection's own words, or by a language model. A
language model that fails costs its technique and never the search: the question is then asked without it, and one
warning says so. Nothing here is loaded by a query that asks for no technique.
"""

from ragcli.retrieval.techniques.asking import deep_ranking, plan, run, search
from ragcli.retrieval.techniques.history import read_history
from ragcli.retrieval.techniques.steps import (
    Compressor,
    Decomposer,
    Feedback,
    PassageWriter,
    Rewriter,
    Steps,
    Variations,
    steps_of,
)
from ragcli.retrieval.techniques.values import Group, ModelInUse, Plan, Query, Stretch, TechniqueResult, Techniques

__all__ = [
    "Compressor",
    "Decomposer",
    "Feedback",
    "Group",
    "ModelInUse",
    "PassageWriter",
    "Plan",
    "Query",
    "Rewriter",
    "Steps",
    "Stretch",
    "TechniqueResult",
    "Techniques",
    "Variations",
    "deep_ranking",
    "plan",
    "read_history",
    "run",
    "search",
    "steps_of",
]
