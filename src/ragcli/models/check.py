"""Does an exported graph still say what the model says? Asked once, before the export is used.

The texts are our own and of many kinds (prose, numbers, code, names, other scripts, one word, one long paragraph),
since an int8 kernel that is wrong on a processor is often wrong for some inputs only.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ragcli.models.protocols import FloatArray

# Of the texts' vectors to their fp32 counterparts: on average, and the worst one.
MEAN_COSINE: Final = 0.99
WORST_COSINE: Final = 0.97

# Of a reranker's scores: the error against the scores' own spread, and an error that changes no answer.
RELATIVE_ERROR: Final = 0.1
SMALL_ERROR: Final = 0.02

CHECK_TEXTS: Final = (
    "Deep water waves break when their height is about a seventh of their length.",
    "We measured the growth of 412 seedlings over two seasons (p < 0.01 in both, n = 36).",
    "What does the committee recommend about night shifts?",
    "lighthouse",
    "def mean(values): return sum(values) / len(values)  # fails for an empty list",
    "Theorem 3. Every bounded monotone sequence of real numbers converges; see https://example.org/proof?id=3.",
    "Die Brücke wurde 1908 bei Köln gebaut, und ses ingénieurs étaient français.",
    "雨が降ると川の水位が上がる。",
    "Glucose tolerance fell in the treated group while body mass stayed the same, which the authors attribute to "
    "insulin resistance in muscle rather than in liver.",
    "The judge held that the contract was void because neither party had disclosed the terms of the earlier loan.",
    "A tide gauge records the height of the sea at one place. Its readings drift for three reasons: the land under "
    "it rises or sinks, the air presses more or less on the water, and the instrument itself ages. The first is "
    "slow, some millimetres a year, and is taken out with satellite levelling. The second follows the barometer: "
    "one hectopascal is worth about one centimetre. The third cannot be computed; it is found by comparing "
    "neighbouring gauges, of which at least one has just been serviced. After all three corrections, what is left "
    "is the change of the sea itself, and over a century it has been between 1.2 and 1.9 mm a year at most harbours "
    "(Table 2), faster since 1990. Whether that pace continues depends on how much heat the upper ocean takes up.",
)


def vectors_agree(cosines: FloatArray) -> bool:
    """Whether vectors whose cosines to the fp32 model's are these may stand in for them."""
    return bool(np.isfinite(cosines).all() and cosines.mean() >= MEAN_COSINE and cosines.min() >= WORST_COSINE)


def check_pairs() -> list[tuple[str, str]]:
    """Pairs of question and passage: each text with the next one, and some with themselves as a perfect match."""
    following = [*CHECK_TEXTS[1:], CHECK_TEXTS[0]]
    return [*zip(CHECK_TEXTS, following, strict=True), *((text, text) for text in CHECK_TEXTS[:4])]


def scores_agree(exported: FloatArray, exact: FloatArray) -> bool:
    """Whether a reranker's exported scores (before any squashing) rank as its exact ones do."""
    error = float(np.sqrt(np.square(exported - exact).mean()))
    return bool(np.isfinite(error) and error <= RELATIVE_ERROR * float(exact.std()) + SMALL_ERROR)
