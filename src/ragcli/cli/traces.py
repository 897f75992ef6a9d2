"""`ask --json`: the verdict, the evidence, the answer and the whole trace, for scripts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ragcli.cli.output import hit_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.gate.answers import Answer
    from ragcli.gate.faithfulness import Faithfulness
    from ragcli.gate.trace import AskResult, Attempt
    from ragcli.gate.values import Decision
    from ragcli.llm.open import RemoteLanguageModel
    from ragcli.retrieval.request import StageTime
    from ragcli.retrieval.techniques import Plan, TechniqueResult


def ask_record(
    result: AskResult,
    model: RemoteLanguageModel | None = None,
    planned: Plan | None = None,
    *,
    found: TechniqueResult | None = None,
) -> dict[str, Any]:
    """Everything that is known of a question that was asked, what scripts use most first.

    `model` is the language model that could be asked, `planned` how techniques have put the question, `found` the
    evidence as they have grouped and shortened it.
    """
    trace = result.trace
    return {
        "question": result.question,
        "verdict": result.verdict,
        **_decision(result.decision),
        "preset": trace.preset,
        "review": list(result.review),
        "answer": _answer(result.answer) if result.answer is not None else None,
        "faithfulness": _faithfulness(result.faithfulness) if result.faithfulness is not None else None,
        "evidence": _evidence(result, found),
        "trace": {
            "pipeline": trace.pipeline,
            "reranker": trace.reranker,
            "retries": len(trace.attempts) - 1,
            "chosen": trace.chosen,
            "stopped": trace.stopped,
            "overridden": trace.overridden,
            "degraded": trace.degraded,
            "warnings": list(trace.warnings),
            "seconds": trace.seconds,
            "attempts": [_attempt(attempt) for attempt in trace.attempts],
            "stages": _stages(trace.stages),
            "asked": _asked(planned) if planned is not None else None,
            "language_model": _spent(model) if model is not None else None,
        },
    }


def _evidence(result: AskResult, found: TechniqueResult | None) -> list[dict[str, Any]]:
    """The passages by rank, which is what an answer cites them by."""
    if found is None:
        return [hit_record(hit) for hit in result.hits]
    from ragcli.cli.found import found_records

    return sorted(found_records(found), key=lambda record: int(record["rank"]))


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "passed": decision.passed,
        "score": decision.score,
        "threshold": decision.threshold,
        "reasons": list(decision.reasons),
        "explanation": decision.explanation,
        "features": dict(decision.features),
        "judge": decision.judge,
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "query": attempt.query,
        "added": [{"word": word, "weight": weight} for word, weight in attempt.added],
        **_decision(attempt.decision),
        "evidence": list(attempt.evidence),
        "seconds": attempt.seconds,
        "stages": _stages(attempt.stages),
    }


def _stages(stages: Sequence[StageTime]) -> list[dict[str, Any]]:
    return [{"stage": each.stage, "seconds": each.seconds, "detail": each.detail} for each in stages]


def _asked(planned: Plan) -> dict[str, Any]:
    return {
        "question": planned.question,
        "parts": list(planned.parts),
        "queries": [
            {"query": each.request.text, "weight": each.weight, "hypothetical": list(each.request.hypothetical)}
            for each in planned.queries
        ],
        "without": list(planned.failed),
    }


def _spent(model: RemoteLanguageModel) -> dict[str, Any]:
    return {"model": model.name, **asdict(model.spent)}


def _answer(answer: Answer) -> dict[str, Any]:
    sentences: list[dict[str, Any]] = [
        {"text": each.text, "citations": list(each.citations)} for each in answer.sentences
    ]
    for sentence, quote in zip(sentences, answer.quotes, strict=False):
        sentence |= {"chunk_id": quote.chunk_id, "start": quote.start, "end": quote.end, "page": quote.page}
    return {
        "text": answer.text,
        "by": answer.by,
        "passages": answer.passages,
        "removed_citations": answer.removed,
        "uncited": list(answer.uncited),
        "sentences": sentences,
    }


def _faithfulness(found: Faithfulness) -> dict[str, Any]:
    return {
        "judge": found.judge,
        "score": found.score,
        "unsupported": [each.claim for each in found.unsupported],
        "sentences": [
            {"text": each.claim, "supported": each.supported, "score": each.score, "missing": list(each.missing)}
            for each in found.sentences
        ],
    }
