"""Whether one system is better than another, or was lucky with these queries.

The paired randomisation test asks how often a difference of means as large as the one seen would come about if,
query by query, it were a coin's toss which system got which score. Smucker, Allan and Carterette (CIKM 2007)
compared five tests on TREC runs and recommend it: it assumes nothing of how scores are distributed. Comparing
many pairs finds "significant" ones by chance, so p-values are corrected by Holm's step-down method (Holm 1979)
over all pairs of one measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

PERMUTATIONS: Final = 100_000
SEED: Final = 20070
ALPHA: Final = 0.05

_BLOCK: Final = 2_000


@dataclass(frozen=True, slots=True)
class PairTest:
    """Two systems on one measure: `difference` is the first's mean minus the second's.

    `p` is two-sided; `p_holm` is corrected for all the pairs of this measure. `queries` took part.
    """

    measure: str
    first: str
    second: str
    difference: float
    p: float
    p_holm: float
    queries: int


def compare_pairs(
    measure: str,
    per_query: Mapping[str, Mapping[str, float]],
    *,
    permutations: int = PERMUTATIONS,
    seed: int = SEED,
) -> tuple[PairTest, ...]:
    """Test every pair of systems on one measure, over the queries that all of them have a value for.

    `per_query` has, for each system, each query's value. The order of the pairs is that of the systems.
    """
    names = list(per_query)
    pairs = list(combinations(range(len(names)), 2))
    if not pairs:
        return ()
    queries = sorted(set.intersection(*(set(values) for values in per_query.values())))
    scores = np.array([[per_query[name][query] for query in queries] for name in names], dtype=np.float64)
    differences = np.stack([scores[first] - scores[second] for first, second in pairs], axis=1)
    p_values = randomisation_test(differences, permutations=permutations, seed=seed)
    corrected = holm(p_values)
    means = differences.mean(axis=0) if queries else np.zeros(len(pairs))
    return tuple(
        PairTest(
            measure, names[first], names[second], float(means[at]), float(p_values[at]), corrected[at], len(queries)
        )
        for at, (first, second) in enumerate(pairs)
    )


def randomisation_test(differences: npt.ArrayLike, *, permutations: int = PERMUTATIONS, seed: int = SEED) -> Values:
    """Two-sided p-values (k,) for k columns of paired differences (queries, k).

    With few queries all 2^n assignments are gone through and p is exact. Else assignments are drawn, and the one
    seen counts as one of them, so that p is never 0 (Phipson and Smyth 2010).
    """
    values = np.asarray(differences, dtype=np.float64)
    count = values.shape[0]
    seen = np.abs(values.sum(axis=0))
    # Sums of the same numbers in another order differ in the last bits; that is not a smaller difference.
    threshold = seen - 1e-9 * np.maximum(np.abs(values).sum(axis=0), 1e-12)
    exact = count < 63 and 2**count <= permutations
    total = 2**count if exact else permutations
    generator = np.random.default_rng(seed)
    as_large = np.zeros(values.shape[1], dtype=np.int64)
    for start in range(0, total, _BLOCK):
        size = min(_BLOCK, total - start)
        if exact:
            numbers = np.arange(start, start + size, dtype=np.int64)
            flips = (numbers[:, None] >> np.arange(count, dtype=np.int64)) & 1
        else:
            flips = generator.integers(0, 2, size=(size, count), dtype=np.int8)
        sums = (1.0 - 2.0 * flips) @ values
        as_large += (np.abs(sums) >= threshold).sum(axis=0)
    return as_large / total if exact else (as_large + 1) / (total + 1)


def holm(p_values: Sequence[float] | Values) -> list[float]:
    """Holm's step-down correction: the smallest of m p-values times m, the next times m-1, never falling."""
    order = np.argsort(np.asarray(p_values), kind="stable").tolist()
    corrected = [0.0] * len(order)
    highest = 0.0
    for place, at in enumerate(order):
        highest = max(highest, min(1.0, float(p_values[at]) * (len(order) - place)))
        corrected[at] = highest
    return corrected


def letters(count: int) -> tuple[str, ...]:
    """Marks for `count` rows: a, b, …, z, aa, ab, …"""
    marks = []
    for number in range(count):
        text, rest = "", number + 1
        while rest:
            rest, digit = divmod(rest - 1, 26)
            text = chr(ord("a") + digit) + text
        marks.append(text)
    return tuple(marks)
