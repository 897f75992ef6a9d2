"""The judges by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragcli.errors import UsageError
from ragcli.gate.values import JUDGES

if TYPE_CHECKING:
    from ragcli.collection import Collection
    from ragcli.gate.calibration import Calibration
    from ragcli.gate.evidence import Judge


def open_judge(name: str, collections: Sequence[Collection]) -> Judge:
    """The judge of that name for a search over some collections.

    `calibrated` goes by the calibration that a collection has of its own, if it is searched alone, and by the shipped
    one else. Raises UsageError for a name that there is not, CollectionError for a calibration that is damaged.
    """
    if name == "heuristic":
        from ragcli.gate.heuristic import HeuristicJudge

        return HeuristicJudge()
    if name == "calibrated":
        from ragcli.gate.calibrated import CalibratedJudge

        return CalibratedJudge(own_calibration(collections[0]) if len(collections) == 1 else None)
    raise UsageError(f"There is no judge '{name}'; choose one of {', '.join(JUDGES)}.")


def own_calibration(collection: Collection) -> Calibration | None:
    """What `ragcli eval --calibrate-gate` learned of a collection; None if nothing that fits its present model."""
    from ragcli.gate.calibration import decode

    stored = collection.calibration()
    if stored is None:
        return None
    calibration = decode(stored.text)
    return calibration if calibration.encoder == stored.fingerprint else None
