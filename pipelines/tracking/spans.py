"""A traced question as spans: the question, each agent's turns, and each LM call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...modules.reading.row import ResultRow, TurnFields
from ..runs.traces import Trace, TracedCall
from .values import scrubbed, shortened_to

if TYPE_CHECKING:
    from mlflow.entities import Span
    from opentelemetry.sdk.trace import ReadableSpan

LONGEST_NAME = 200
LONGEST_TITLE = 60
_TAG = "mlflow.traceTag."
_NOT_SAID = ("agent", "round", "usage", "step")


def trace_number(run_id: str, question: str) -> int:
    """The OpenTelemetry id of the one trace that a question has in a run: sending it again adds
    nothing.
    """
    text = f"{run_id}/{question}".encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.sha256(text).digest()[:16]) or 1


def trace_id(run_id: str, question: str) -> str:
    return f"tr-{trace_number(run_id, question):032x}"


def spans_of(record: Trace, run_id: str, program: str) -> list[Span]:
    """The spans of a line of `traces.jsonl` for MLflow, the root first."""
    from mlflow.entities import Span

    return [Span(one) for one in otel_spans(record, run_id, program)]


def otel_spans(record: Trace, run_id: str, program: str) -> list[ReadableSpan]:
    """The spans of a line of `traces.jsonl` with MLflow's attributes, the root first."""
    record = scrubbed(record)
    row = record["row"]
    made = _Spans(trace_number(run_id, row["id"]))
    times = record["began"], record["ended"]
    tags = {
        "mlflow.traceName": shortened_to(str(row.get("question") or row["id"]), LONGEST_TITLE),
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
        {
            "answer": _with_text(row["answer"], row),
            "gold": _with_text(row["gold"], row),
            "correct": row["correct"],
        },
        row["error"],
        {
            **{f"folkmoot.{key}": value for key, value in about.items() if value is not None},
            **{f"mlflow.traceTag.{key}": _name(value) for key, value in tags.items()},
        },
    )
    calls, turns = record["calls"], row.get("transcript") or []
    names = [_turn_name(turn) for turn in turns]
    for place, (turn, name) in enumerate(zip(turns, names, strict=True)):
        own = [call for call in calls if call["transcript_turn"] == place]
        said = {key: value for key, value in turn.items() if key not in _NOT_SAID}
        if names.count(name) > 1:
            name = f"{name}, sample {names[: place + 1].count(name)}"
        _add_agent(made, name, own, times, {"round": turn["round"]}, said)
    asks: dict[int, list[TracedCall]] = {}
    for call in calls:
        if call["transcript_turn"] is None:
            asks.setdefault(call["turn"], []).append(call)
    for own in asks.values():
        _add_agent(made, own[0]["seat"] or "agent", own, times, None, None)
    return made.spans


def _turn_name(turn: TurnFields) -> str:
    step = f", {turn['step']}" if turn.get("step") else ""
    return f"{turn['agent']}, round {turn['round']}{step}"


def _add_agent(
    made: _Spans,
    name: str,
    calls: Sequence[TracedCall],
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


def _add_call(made: _Spans, agent: int, call: TracedCall) -> None:
    usage: Mapping[str, Any] = call["usage"] or {}
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


def _with_text(answer: Any, row: ResultRow) -> Any:
    """An answer, with its option's text where it is the label of one."""
    choices = row.get("choices") or {}
    return f"{answer}: {choices[answer]}" if answer in choices else answer


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


def genai_spans(spans: Sequence[ReadableSpan]) -> Iterator[ReadableSpan]:
    """The spans of a trace with the attributes of OpenTelemetry's conventions for generative AI."""
    from mlflow.tracing.export.genai_semconv.translator import translate_span_to_genai
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, TraceFlags

    resource = Resource({"service.name": "folkmoot"}).merge(OTELResourceDetector().detect())

    def context(given: Any) -> Any:
        """With an id that no span of another trace has."""
        number = (given.trace_id + given.span_id) % 2**64 or 1
        return SpanContext(given.trace_id, number, False, TraceFlags(1))

    for span in spans:
        own = {name: json.loads(str(value)) for name, value in (span.attributes or {}).items()}
        kind, root = own["mlflow.spanType"], span.parent is None
        made = span if root else translate_span_to_genai(span)
        attributes = {
            **{
                name.removeprefix(_TAG): value
                for name, value in own.items()
                if name.startswith(_TAG)
            },
            **{name: _plain(value) for name, value in own.items() if name.startswith("folkmoot.")},
            **{
                name: value
                for name, value in (made.attributes or {}).items()
                if name.startswith("gen_ai.")
            },
        }
        attributes.pop("mlflow.traceName", None)
        name = made.name
        if kind == "CHAT_MODEL":
            attributes["gen_ai.request.model"], name = span.name, f"chat {span.name}"
            if cost := own.get("mlflow.llm.cost"):
                attributes["folkmoot.cost_usd"] = cost["total_cost"]
        else:
            attributes |= {
                f"folkmoot.{of}": json.dumps(own[f"mlflow.span{of.title()}"], ensure_ascii=False)
                for of in ("inputs", "outputs")
                if f"mlflow.span{of.title()}" in own
            }
        if root:
            attributes["gen_ai.operation.name"] = "invoke_workflow"
        yield ReadableSpan(
            name=name,
            context=context(span.context),
            parent=None if span.parent is None else context(span.parent),
            resource=resource,
            attributes=attributes,
            kind=made.kind,
            status=span.status,
            start_time=span.start_time,
            end_time=span.end_time,
        )


def _plain(value: Any) -> Any:
    return (
        value
        if isinstance(value, str | bool | int | float)
        else json.dumps(value, ensure_ascii=False)
    )
