"""A traced question as spans: the question, each agent's turns, and each LM call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..runs.traces import TURN
from .values import scrubbed

if TYPE_CHECKING:
    from mlflow.entities import Span
    from opentelemetry.sdk.trace import ReadableSpan

LONGEST_NAME = 200
_NOT_SAID = ("agent", "round", "usage", "step")


def trace_number(run_id: str, question: str) -> int:
    """The OpenTelemetry id of the one trace that a question has in a run: sending it again adds
    nothing.
    """
    text = f"{run_id}/{question}".encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.sha256(text).digest()[:16]) or 1


def trace_id(run_id: str, question: str) -> str:
    return f"tr-{trace_number(run_id, question):032x}"


def spans_of(record: Mapping[str, Any], run_id: str, program: str) -> list[Span]:
    """The spans of a line of `traces.jsonl` for MLflow, the root first."""
    from mlflow.entities import Span

    return [Span(one) for one in otel_spans(record, run_id, program)]


def otel_spans(record: Mapping[str, Any], run_id: str, program: str) -> list[ReadableSpan]:
    """The spans of a line of `traces.jsonl` with MLflow's attributes, the root first."""
    record = scrubbed(record)
    row = record["row"]
    made = _Spans(trace_number(run_id, row["id"]))
    times = record["began"], record["ended"]
    tags = {
        "mlflow.traceName": row["id"],
        "folkmoot.question": row["id"],
        "folkmoot.run": run_id,
        "folkmoot.correct": str(bool(row["correct"])).lower(),
    }
    about = {
        key: row.get(key) for key in ("kind", "gold", "correct", "em", "f1", "decided_by", "rounds")
    }
    made.add(
        program,
        None,
        "CHAIN",
        times,
        {
            "question": row.get("question"),
            **({"choices": row["choices"]} if row.get("choices") else {}),
        },
        {"answer": row["answer"], "gold": row["gold"], "correct": row["correct"]},
        row["error"],
        {
            **{f"folkmoot.{key}": value for key, value in about.items() if value is not None},
            **{f"mlflow.traceTag.{key}": _name(value) for key, value in tags.items()},
        },
    )
    calls = record["calls"]
    for place, turn in enumerate(row.get("transcript") or []):
        own = [call for call in calls if call.get(TURN) == place]
        step = f", {turn['step']}" if turn.get("step") else ""
        said = {key: value for key, value in turn.items() if key not in _NOT_SAID}
        name = f"{turn['agent']}, round {turn['round']}{step}"
        _add_agent(made, name, own, times, {"round": turn["round"]}, said)
    asks: dict[int, list[Mapping[str, Any]]] = {}
    for call in calls:
        if call[TURN] is None:
            asks.setdefault(call["turn"], []).append(call)
    for own in asks.values():
        _add_agent(made, own[0]["seat"] or "agent", own, times, None, None)
    return made.spans


def span_count(record: Mapping[str, Any]) -> int:
    """How many spans that are."""
    calls, turns = record["calls"], record["row"].get("transcript") or []
    return (
        1
        + len(turns)
        + len(calls)
        + len({call["turn"] for call in calls if call.get(TURN, 0) is None})
    )


def _add_agent(
    made: _Spans,
    name: str,
    calls: Sequence[Mapping[str, Any]],
    times: tuple[int, int],
    inputs: Any,
    outputs: Any,
) -> None:
    """A turn with its LM calls, or calls that led to no turn."""
    if calls:
        times = min(call["began"] for call in calls), max(call["ended"] for call in calls)
    error = next((call["error"] for call in reversed(calls) if call["error"]), None)
    agent = made.add(name, made.root, "AGENT", times, inputs, outputs, error, {})
    for call in calls:
        _add_call(made, agent, call)


def _add_call(made: _Spans, agent: int, call: Mapping[str, Any]) -> None:
    usage = call["usage"] or {}
    provider, _, _ = call["model"].partition("/")
    known: dict[str, Any] = {"mlflow.message.format": "openai", "mlflow.llm.provider": provider}
    known["folkmoot.from_record"] = bool(usage.get("cached_calls"))
    tokens = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    if any(tokens):
        counts = {
            "input_tokens": tokens[0],
            "output_tokens": tokens[1],
            "total_tokens": sum(tokens),
        }
        known["mlflow.chat.tokenUsage"] = counts
    # Given model and tokens but no cost, MLflow computes one from prices of its own, not the run's.
    if usage.get("cost_usd") is not None:
        known["mlflow.llm.model"] = call["model"]
        known["mlflow.llm.cost"] = {"total_cost": usage["cost_usd"]}
    message = {"role": "assistant", "content": call["text"]}
    said = None if call["text"] is None else {"choices": [{"index": 0, "message": message}]}
    times = call["began"], call["ended"]
    made.add(call["model"], agent, "CHAT_MODEL", times, call["request"], said, call["error"], known)


def _name(text: str) -> str:
    """As a database takes it: no lone surrogates, and not too long."""
    return text.encode("utf-8", "backslashreplace").decode()[:LONGEST_NAME]


class _Spans:
    """The spans of one trace as they are made; the first is the root."""

    root = 0

    def __init__(self, number: int) -> None:
        self.spans: list[ReadableSpan] = []
        self._number = number

    def add(
        self,
        name: str,
        parent: int | None,
        kind: str,
        times: tuple[int, int],
        inputs: Any,
        outputs: Any,
        error: str | None,
        attributes: Mapping[str, Any],
    ) -> int:
        """Add a span and give its place, which its children name as `parent`."""
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import Status, StatusCode

        known = {
            "mlflow.traceRequestId": f"tr-{self._number:032x}",
            "mlflow.spanType": kind,
            **({} if inputs is None else {"mlflow.spanInputs": inputs}),
            **({} if outputs is None else {"mlflow.spanOutputs": outputs}),
            **attributes,
        }
        span = ReadableSpan(
            name=_name(name),
            context=self._context(len(self.spans)),
            parent=None if parent is None else self._context(parent),
            attributes={key: json.dumps(value) for key, value in known.items()},
            start_time=times[0],
            end_time=max(times),
            status=Status(StatusCode.ERROR, error) if error else Status(StatusCode.OK),
            resource=Resource({}),
        )
        self.spans.append(span)
        return len(self.spans) - 1

    def _context(self, place: int) -> Any:
        from opentelemetry.trace import SpanContext, TraceFlags

        return SpanContext(self._number, place + 1, False, TraceFlags(1))
