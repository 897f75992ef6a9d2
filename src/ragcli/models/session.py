"""ONNX Runtime, set up for one window at a time on several threads of ours.

Each run uses one thread and several runs go on at once. Splitting every small operation over the cores would have
them wait for each other most of the time: measured on two cores that other programs used too, 21 chunks/s against
40. The graph is final, so the optimiser stays off and a session is ready in some 30 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ragcli.models.protocols import ExportError

if TYPE_CHECKING:
    import onnxruntime

Item = TypeVar("Item")
Result = TypeVar("Result")


def open_session(path: Path) -> onnxruntime.InferenceSession:
    """Load a graph written by `export`; its weights file is mapped, so that only what is used is read.

    Raises ExportError for a graph that is damaged or that this version of the runtime does not know.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    # The runtime has a dozen exception classes with no base of their own.
    except Exception as error:
        raise ExportError(f"ONNX Runtime cannot load its graph ({error})") from None


def run_all(work: Callable[[Item], Result], items: Sequence[Item], workers: int) -> list[Result]:
    """`work` of every item, in order, on that many threads. An interrupt stops it after the runs under way."""
    if workers < 2 or len(items) < 2:
        return [work(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(workers, len(items))) as pool:
        waiting = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
