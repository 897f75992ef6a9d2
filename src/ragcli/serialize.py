"""Convert results to JSON records: hits, ask and check results, documents, collections, reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.agent import AgentRun, LowLevelQuery, Round
    from ragcli.collection import CollectionInfo, DocumentRow, IngestReport, MetadataField
    from ragcli.grounding.answers import Answer
    from ragcli.grounding.ask import AskResult, SearchAttempt
    from ragcli.grounding.check.claim_check import CheckedSentence
    from ragcli.grounding.check.draft_parser import Draft
    from ragcli.grounding.faithfulness.claims import Faithfulness
    from ragcli.grounding.sufficiency.evidence import Decision
    from ragcli.llm.cached_client import RemoteLanguageModel
    from ragcli.models import ModelListing
    from ragcli.plugins import InstalledPlugin
    from ragcli.retrieval.request import QueryPlan, QueryResult, StageTime
    from ragcli.types import Failure, GrepHit, Hit


def ask_record(result: AskResult, model: RemoteLanguageModel | None = None) -> dict[str, Any]:
    """Everything that is known of a question that was asked, what scripts use most first.

    `model` is the language model that could be asked.
    """
    trace = result.trace
    plan = result.found.plan
    return {
        "question": result.question,
        "verdict": result.verdict,
        **_decision_record(result.decision),
        "preset": trace.preset,
        "review": list(result.review),
        "answer": _answer_record(result.answer) if result.answer is not None else None,
        "faithfulness": _faithfulness_record(result.faithfulness) if result.faithfulness is not None else None,
        # By rank, which is what an answer cites them by.
        "evidence": sorted(query_records(result.found), key=lambda record: int(record["rank"])),
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
            "attempts": [_attempt_record(attempt) for attempt in trace.attempts],
            "stages": _stage_records(trace.stages),
            "asked": _plan_record(plan) if plan is not None and plan.request.techniques else None,
            "language_model": _language_model_record(model) if model is not None else None,
        },
    }


def _decision_record(decision: Decision) -> dict[str, Any]:
    return {
        "passed": decision.passed,
        "score": decision.score,
        "threshold": decision.threshold,
        "reasons": list(decision.reasons),
        "explanation": decision.explanation,
        "features": dict(decision.features),
        "judge": decision.judge,
    }


def _attempt_record(attempt: SearchAttempt) -> dict[str, Any]:
    return {
        "query": attempt.query,
        "added": [{"word": word, "weight": weight} for word, weight in attempt.added],
        **_decision_record(attempt.decision),
        "evidence": list(attempt.evidence),
        "seconds": attempt.seconds,
        "stages": _stage_records(attempt.stages),
    }


def _stage_records(stages: Sequence[StageTime]) -> list[dict[str, Any]]:
    return [{"stage": each.stage, "seconds": each.seconds, "detail": each.detail} for each in stages]


def _plan_record(plan: QueryPlan) -> dict[str, Any]:
    return {
        "question": plan.question,
        "parts": list(plan.parts),
        "queries": [
            {"query": each.request.text, "weight": each.weight, "hypothetical": list(each.request.hypothetical)}
            for each in plan.queries
        ],
        "without": list(plan.failed),
    }


def _language_model_record(model: RemoteLanguageModel) -> dict[str, Any]:
    return {"model": model.name, **asdict(model.spent)}


def _answer_record(answer: Answer) -> dict[str, Any]:
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


def _faithfulness_record(found: Faithfulness) -> dict[str, Any]:
    return {
        "judge": found.judge,
        "score": found.score,
        "unsupported": [each.claim for each in found.unsupported],
        "sentences": [
            {"text": each.claim, "supported": each.supported, "score": each.score, "missing": list(each.missing)}
            for each in found.sentences
        ],
    }


def hit_record(hit: Hit) -> dict[str, object]:
    """A hit under the contract's keys, those that scripts use most first."""
    chunk = hit.chunk
    return {
        "rank": hit.rank,
        "source": chunk.source,
        "text": chunk.text,
        "score": hit.score,
        "score_type": hit.score_type,
        "cosine": hit.cosine,
        "collection": chunk.collection,
        "document_id": chunk.document_id,
        "chunk_id": chunk.chunk_id,
        "page_start": chunk.page_start,
        "page_end": chunk.page_end,
        "heading": chunk.heading,
        "reranker": hit.reranker,
        "scores": dict(hit.scores),
        "title": chunk.title,
        "path": chunk.path,
        "source_score": hit.source_score,
        "duplicates": [
            {"source": each.source, "collection": each.collection, "chunk_id": each.chunk_id} for each in hit.duplicates
        ],
        "others": [hit_record(other) for other in hit.others],
    }


def grep_record(hit: GrepHit) -> dict[str, object]:
    """A grep hit under the contract's keys; `truncated` only on a last hit after which there was more."""
    record: dict[str, object] = {
        "source": hit.source,
        "chunk_index": hit.chunk_index,
        "match": hit.match,
        "snippet": hit.snippet,
        "start": hit.start,
        "end": hit.end,
        "collection": hit.collection,
        "page": hit.page,
        "path": hit.path,
    }
    return record | {"truncated": True} if hit.truncated else record


def query_records(found: QueryResult) -> Iterator[dict[str, Any]]:
    """Each hit under the contract's keys; with `sub_question` if there are parts, and `kept` if passages were cut."""
    kept = {hit.rank: stretches for hit, stretches in zip(found.hits, found.kept, strict=False)}
    parts: list[tuple[str | None, Sequence[Hit]]] = [(group.question, group.hits) for group in found.groups]
    for question, hits in parts or [(None, found.hits)]:
        for hit in hits:
            record: dict[str, Any] = hit_record(hit)
            if question is not None:
                record["sub_question"] = question
            if found.kept:
                record["kept"] = [
                    {"start": each.start, "end": each.end, "page": each.page} for each in kept.get(hit.rank, ())
                ]
            yield record


def agent_run_record(run: AgentRun) -> dict[str, Any]:
    """The whole trace as plain values: sub-tasks, rounds, queries, hits, judgements and times."""
    trace = run.trace
    return {
        "sufficient": trace.sufficient,
        "back_edges": trace.back_edges,
        "seconds": trace.seconds,
        "warnings": list(trace.warnings),
        "tasks": [
            {
                "goal": task.task.goal,
                "sources": list(task.task.sources),
                "sufficient": task.sufficient,
                "ended": task.ended,
                "seconds": task.seconds,
                "rounds": [_round_record(turn) for turn in task.rounds],
                "kept": [hit.chunk.chunk_id for hit in task.kept],
            }
            for task in trace.tasks
        ],
    }


def _round_record(turn: Round) -> dict[str, Any]:
    judged = turn.judgement
    refined = judged.refinement
    return {
        "number": turn.number,
        "goal": turn.task.goal,
        "seconds": turn.seconds,
        "queries": [
            {
                "sources": queried_collections(each.query),
                "query": each.query.query,
                "params": {name: _plain_value(value) for name, value in each.query.params.items() if name != "among"},
                "seconds": each.seconds,
                "error": each.error,
                "hits": [_hit_reference_record(hit) for hit in each.hits],
            }
            for each in turn.retrievals
        ],
        "offered": turn.offered,
        "kept": [hit.chunk.chunk_id for hit in turn.kept],
        "judgement": {
            "sufficient": judged.sufficient,
            "reason": judged.reason,
            "refinement": None if refined is None else {"goal": refined.goal, "sources": list(refined.sources)},
            "signals": {name: _plain_value(value) for name, value in judged.signals.items()},
        },
    }


def _hit_reference_record(hit: Hit) -> dict[str, Any]:
    """A hit by its place and score; `ragcli show` reads its text."""
    chunk = hit.chunk
    return {
        "rank": hit.rank,
        "chunk_id": chunk.chunk_id,
        "collection": chunk.collection,
        "origin": hit.origin,
        "source": chunk.source,
        "page_start": chunk.page_start,
        "page_end": chunk.page_end,
        "heading": chunk.heading,
        "score": hit.score,
        "score_type": hit.score_type,
    }


def queried_collections(query: LowLevelQuery) -> list[str]:
    """The collections that a query was put to, in one pool where there are several."""
    return list(query.params.get("among") or (query.source,))


def _plain_value(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain_value(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_value(each) for each in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def check_record(
    shown: Sequence[CheckedSentence], found: Sequence[CheckedSentence], draft: Draft, judge: str
) -> dict[str, object]:
    """The same as JSON."""
    counts = Counter(each.verdict for each in found)
    return {
        "judge": judge,
        "checked": len(found),
        "supported": counts["supported"],
        "elsewhere": counts["elsewhere"],
        "unsupported": counts["unsupported"],
        "references": dict(draft.references),
        "sentences": [_checked_sentence_record(each) for each in shown],
    }


def _checked_sentence_record(checked: CheckedSentence) -> dict[str, object]:
    support, chunk = checked.support, checked.chunk
    passage: dict[str, object] | None = None
    if chunk is not None:
        passage = {
            "collection": chunk.collection,
            "source": chunk.source,
            "document_id": chunk.document_id,
            "chunk_id": chunk.chunk_id,
            "page": checked.page,
            "heading": chunk.heading,
            "text": chunk.text[support.start : support.end],
            "start": support.start,
            "end": support.end,
            "path": chunk.path,
        }
    return {
        "line": checked.sentence.line,
        "sentence": checked.sentence.text,
        "claim": checked.sentence.claim,
        "verdict": checked.verdict,
        "judge": checked.judge,
        "score": support.score,
        "missing": list(support.missing),
        "citations": [each.written for each in checked.sentence.citations],
        "unknown_citations": list(checked.unknown),
        "searched": checked.searched,
        "passage": passage,
    }


def document_record(collection: str, row: DocumentRow) -> dict[str, object]:
    """A document as JSON has it."""
    return {
        "collection": collection,
        "document_id": row.document_id,
        "source": row.source,
        "path": row.path,
        "kind": row.kind,
        "title": row.title,
        "pages": row.pages or None,
        "chunks": row.chunks,
        "characters": row.characters,
        "ingested_at": row.ingested_at,
        "parser": row.parser,
        "parser_version": row.parser_version,
        "warnings": row.warnings,
        "metadata": row.metadata,
    }


def field_record(collection: str, field: MetadataField) -> dict[str, object]:
    return {
        "collection": collection,
        "key": field.key,
        "types": field.types,
        "documents": field.documents,
        "examples": field.examples,
    }


def collection_record(info: CollectionInfo) -> dict[str, object]:
    """A collection as JSON has it."""
    settings = info.settings
    return {
        "name": info.name,
        "documents": info.documents,
        "chunks": info.chunks,
        "bytes": info.bytes,
        "failures": info.failures,
        "last_ingest": info.last_ingest.isoformat() if info.last_ingest is not None else None,
        "generation": info.generation,
        "settings": {
            "chunk_size": settings.chunk_size,
            "overlap": settings.overlap,
            "encoder": settings.encoder,
            "token_vectors": settings.token_vectors,
            "context": settings.context,
            "tenant_key": settings.tenant_key,
        },
    }


def model_record(listing: ModelListing) -> dict[str, object]:
    """A model as JSON has it."""
    return {
        "name": listing.name,
        "kind": listing.kind,
        "where": listing.where,
        "path": str(listing.path),
        "bytes": listing.size,
        "sha256": listing.sha256,
        "engine": listing.engine,
    }


def plugin_record(plugin: InstalledPlugin, problem: str | None) -> dict[str, object]:
    """An installed plugin as JSON has it; `problem` is why it cannot be used."""
    return {
        "group": f"ragcli.{plugin.group}",
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "file_types": [f".{plugin.name}"] if plugin.group == "parsers" else [],
        "target": plugin.target,
        "problem": problem,
    }


def ingest_report_record(report: IngestReport) -> dict[str, object]:
    """The report as JSON has it."""

    def told(failures: Sequence[Failure]) -> list[dict[str, object]]:
        return [{"source": each.source, "reason": each.reason} for each in failures]

    return {
        "collection": report.collection,
        "added": report.added,
        "changed": report.changed,
        "refreshed": report.refreshed,
        "moved": [{"from": before, "to": after} for before, after in report.moved],
        "described": report.described,
        "removed": report.removed,
        "gone": report.gone,
        "unchanged": report.unchanged,
        "outdated": report.outdated,
        "failures": told(report.failures),
        "warnings": told(report.warnings),
        "skipped": report.skipped,
        "documents": report.documents,
        "pages": report.pages,
        "chunks": report.chunks,
        "embedded": report.embedded,
        "reused": report.reused,
        "seconds": round(report.seconds, 3),
        "generation": report.generation,
        "dry_run": report.dry_run,
        "interrupted": report.interrupted,
    }
