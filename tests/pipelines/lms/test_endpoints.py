"""How real endpoints behave, one entry each, and what has to come of it.

An entry says what the server answers and what the run of three questions then is. To add a
behaviour, add an entry.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from completions import completion
from mortal import questions
from wire_server import Server
from wire_server import quick as quick

import folkmoot as fm
from folkmoot.modules.base.calls import (
    AuthError,
    BillingError,
    FatalCallError,
    UnsupportedModelError,
)
from folkmoot.pipelines.lms.failures import (
    AskedEndpoint,
    Habits,
    RefusedRequest,
    TooLongRequest,
    TransientError,
)
from folkmoot.pipelines.lms.ledger import totals
from folkmoot.pipelines.lms.refusals import LEAST_QUOTED, changes_of, failure_of

ROUTES = ("openai/x", "mistral/mistral-small")
Said = tuple[int, dict[str, str], bytes]


def http(body: Any, status: int = 200, **headers: str) -> Said:
    """An answer; a dict becomes JSON."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = {"Content-Type": "application/json"}
    return status, {**kind, **{n.replace("_", "-"): value for n, value in headers.items()}}, sent


def says(text: Any = '{"answer": "A"}', **choice: Any) -> Said:
    """A completion with this text, and these fields in its choice."""
    body = completion(text)
    usage = choice.pop("usage", None)
    message = choice.pop("message", {})
    body["choices"][0] |= choice
    body["choices"][0]["message"] |= message
    if usage is not None:
        body["usage"] = usage
    return http(body)


def error(status: int, message: str, inside: bool = False, **more: Any) -> Said:
    return http({"error": {"message": message, **more}}, 200 if inside else status)


@dataclass(frozen=True)
class Behaviour:
    """What a server does, and what a run makes of it.

    `answer` gets the request and the number of those before it, and gives what is answered to it.
    `answers` are those of the three questions, `error` is in the rows without one, `stopped` in the
    sentence of a run that ends early or fails. `calls` is the number of requests, `paid` that of
    billed calls, and `note` is what is said of the endpoint.
    """

    name: str
    answer: Callable[[dict[str, Any], int], Said]
    answers: tuple[str | None, ...] = ("A", "A", "A")
    error: str = ""
    stopped: str = ""
    calls: int | None = None
    paid: int | None = None
    row: dict[str, Any] = field(default_factory=dict)
    note: str = ""


def always(said: Said) -> Callable[[dict[str, Any], int], Said]:
    return lambda body, before: said


def once(said: Said, at: int = 1) -> Callable[[dict[str, Any], int], Said]:
    """Answer one request badly, the second by default."""
    return lambda body, before: said if before == at else says()


def after_one(said: Said) -> Callable[[dict[str, Any], int], Said]:
    """Answer the first request well, and no other."""
    return lambda body, before: said if before else says()


def refusing(name: str, said: Said) -> Callable[[dict[str, Any], int], Said]:
    """Refuse every request that has a field."""
    return lambda body, before: said if name in body else says()


def without_system(status: int, words: str) -> Callable[[dict[str, Any], int], Said]:
    """Refuse every request that has a system message."""

    def answer(body: dict[str, Any], before: int) -> Said:
        refused = any(message["role"] == "system" for message in body["messages"])
        return error(status, words) if refused else says()

    return answer


def refused_inside(words: str) -> dict[str, Any]:
    """MiniMax's answer to a request that it refuses."""
    return {"choices": None, "base_resp": {"status_code": 1000, "status_msg": words}}


def stream(*pieces: dict[str, Any], end: str = "stop", last: str = "[DONE]") -> Said:
    """A reply as a stream of events, in these pieces."""
    chunks: list[dict[str, Any]] = [{"choices": [{"delta": piece}]} for piece in pieces]
    chunks.append({"choices": [{"delta": {}, "finish_reason": end or None}]})
    chunks.append({"choices": [], "usage": BILL})
    events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return 200, {}, f"{events}data: {last}\n\n".encode()


def streaming(words: str) -> Callable[[dict[str, Any], int], Said]:
    """Refuse every request that does not ask for a stream."""
    return lambda body, before: stream(*STREAMED) if body.get("stream") else error(400, words)


def one_at_a_time(*names: str) -> Callable[[dict[str, Any], int], Said]:
    """Refuse the first of these fields that a request has."""

    def answer(body: dict[str, Any], before: int) -> Said:
        for name in names:
            if name in body:
                return error(400, f"Unsupported value: '{name}' is not supported (id {before})")
        return says()

    return answer


def repeating(body: dict[str, Any], before: int) -> Said:
    return error(400, f"Cannot serve {json.dumps(body, indent=1)} (id {before})")


BLOCKED = {**completion("x"), "choices": []}
RESET = {"headers": {"X-RateLimit-Reset": str(int(1000 * (time.time() + 9000)))}}
PAGE = b"<!doctype html><html><title>Log in</title></html>"
TOO_LONG = (
    "The input (9 tokens) is longer than the model's context length (4 tokens).",
    "Prompt contains 9 tokens, too large for model with 4 maximum context length",
    "The total length of all messages is too long.",
    "Range of input length should be [1, 4]",
    "`inputs` must have less than 4 tokens. Given: 9",
    "exceeded model token limit: 4",
    "`inputs` tokens + `max_new_tokens` must be <= 4. Given: 9 `inputs` tokens",
    "'max_tokens' or 'max_completion_tokens' is too large: this model's context window is 4",
    "the request exceeds the available context size",
    "too many total text bytes: 9 > 4",
    "This model's maximum prompt length is 4 but the request contains 9 tokens.",
    "length of prompt_tokens (9) must be less than max_seq_len (4).",
    "prompt token count of 9 exceeds the limit of 4",
    "Prompt exceeds max length",
    "input (9 tokens) is too large to process. increase the physical batch size",
)
WRONG_KEY, NO_MODEL, NO_QUOTA = "refused the key", "does not know the model", "no quota left"
NONE, MIDDLE = (None, None, None), ("A", None, "A")
STREAMED = ({"reasoning_content": "B?"}, {"content": '{"answer": '}, {"content": '"A"}'})
GZIP, BILL = {"Content-Encoding": "gzip"}, {"prompt_tokens": 9, "completion_tokens": 2}
FINAL = "<|channel|>analysis<|message|>B?<|end|><|start|>assistant"
FINAL += '<|channel|>final <|constrain|>json<|message|>{"answer": "A"}'
PARTS: list[Any] = [{"type": "thinking", "thinking": [{"type": "text", "text": "B?"}]}]
PARTS.append({"type": "text", "text": "A"})
UNENDED = says("<think>It is B, since", finish_reason="length")
LOGPROBS = {"content": [{"token": "A", "logprob": None}]}
NO_TEMPERATURE = error(400, "Unsupported value: 'temperature' is not supported")
UNSERVED = error(404, "No endpoints found that can handle the requested parameters.")
OTHER_LIMIT = error(400, "'max_tokens' is not supported. Use 'max_completion_tokens' instead.")
LONG = error(400, "x", code="context_length_exceeded")
PROHIBITED = "content_filter: PROHIBITED_CONTENT"
FLAGGED = error(400, "flagged", inside=True, code=403)
FULL = http({"object": "error", "message": "maximum context length is 4", "code": 40303})
EXACT = http({}, 429, Retry_After="300", retry_after_ms="10")
CACHED_TWICE = {"prompt_tokens_details": {"cached_tokens": 0}, "cache_read_input_tokens": 4}

BEHAVIOURS = [
    # Replies
    Behaviour("thoughts", always(says("<think>\nAt first B.\n</think>\n\nA"))),
    Behaviour("a closing mark alone", always(says("At first B.</think>A"))),
    Behaviour("[THINK]", always(says("[THINK]B?[/THINK]A"))),
    *(
        Behaviour(f"thoughts: {text[:24]}", always(says(text)), row={"reasoning": "B?"})
        for text in (
            "<|channel>thought\nB?<channel|>A",
            "B?<channel|>A",
            "<|channel>\nB?</channel|>A",
            "B?assistantfinalA",
            "<longcat_think>B?</longcat_think>A",
            '<think duration="3">B?</think>A',
            "<|think|>B?<|/think|>A",
            "<|inner_prefix|>B?<|inner_suffix|>A",
            "<unused94>thought\nB?<unused95>A",
            "<|START_THINKING|>B?<|END_THINKING|><|START_RESPONSE|>A<|END_RESPONSE|>",
            "<|begin_of_thought|>B?<|end_of_thought|>\n<|begin_of_solution|>A<|end_of_solution|>",
        )
    ),
    Behaviour("a box", always(says("It is <|begin_of_box|>A<|end_of_box|>."))),
    Behaviour("a final channel with its format", always(says(FINAL))),
    Behaviour("thoughts without an end", always(UNENDED), NONE, row={"truncated": True}),
    Behaviour(
        "thoughts apart",
        always(says("A", message={"reasoning_content": "B?"})),
        row={"reasoning": "B?"},
    ),
    Behaviour("an output_text", always(says([{"type": "output_text", "text": "A"}]))),
    Behaviour("a part without a type", always(says([{"text": "A"}]))),
    Behaviour("a part in capitals", always(says([{"type": "TEXT", "text": "A"}]))),
    Behaviour("a part whose type is null", always(says([{"type": None, "text": "A"}]))),
    Behaviour("thoughts in a part", always(says(PARTS)), row={"reasoning": "B?"}),
    Behaviour("a stream", always(stream(*STREAMED)), calls=3, paid=3, row={"reasoning": "B?"}),
    Behaviour("a stream without a reason", always(stream(*STREAMED, end="")), paid=3),
    Behaviour("one event", always((200, {}, f"data: {json.dumps(completion('A'))}\n".encode()))),
    Behaviour("an empty stream", once(stream(end="")), calls=4),
    Behaviour(
        "a stream without an end",
        always(stream(*STREAMED, end="", last="{}")),
        stopped="with something that is not a chat completion",
        calls=9,
    ),
    *(
        Behaviour(
            f"streams alone: {words}", streaming(words), calls=4, paid=3, note="by streams alone"
        )
        for words in (
            "This model only support stream mode, please enable the stream parameter.",
            "parameter.enable_thinking must be set to false for non-streaming calls",
            "enable thinking can not be support when `stream=False`.",
            "Streaming is required for this model",
            "当前模型仅支持流式输出",
        )
    ),
    Behaviour(
        "streams alone, without their usage",
        lambda body, before: (
            error(400, "unknown field stream_options")
            if "stream_options" in body
            else streaming("This model only supports streams")(body, before)
        ),
        calls=7,
        note="by streams alone",
    ),
    *(
        Behaviour(
            f"thoughts alone: {text}",
            always(says(text, message={"reasoning": "It is A."})),
            NONE,
            row={"reasoning": "It is A."},
            note="puts its whole reply into its thoughts",
        )
        for text in (None, "\n\n")
    ),
    Behaviour("a status of 201", always(http(completion("A"), 201)), paid=3),
    *(
        Behaviour(
            f"a body in {encoding}", always((200, {}, says()[2].decode().encode(encoding))), paid=3
        )
        for encoding in ("utf-8-sig", "utf-16", "utf-16-le", "utf-32")
    ),
    Behaviour(
        "control characters in a text",
        always((200, {}, says("Hm.\n\tAnswer: A")[2].replace(b"\\n\\t", b"\n\t"))),
        paid=3,
    ),
    Behaviour("bytes that are no text", always((200, {}, b"\x1f\x8b\xff")), stopped="not in UTF-8"),
    *(
        Behaviour(
            f"an empty body with {status}",
            always((status, {}, b"")),
            stopped=f"answered {status} with something that is not a chat completion (it is empty)",
            calls=9,
        )
        for status in (202, 204)
    ),
    Behaviour(
        "plain, where gzip is announced",
        always((200, GZIP, says()[2])),
        stopped="cannot be unpacked as gzip, which its header names",
    ),
    Behaviour("a wrong key, gzip", always((401, GZIP, b"{}")), stopped=WRONG_KEY, calls=1, paid=0),
    Behaviour("an object as content", once(says({"a": 1})), calls=4, paid=4),
    *(
        Behaviour(f"a mark at the end: {mark}", always(says(f"A{mark}")))
        for mark in (
            "</s>",
            "<|im_end|>\n",
            "<|eot_id|><|endoftext|>",
            "<end_of_turn>",
            "<unused6226>",
        )
    ),
    *(
        Behaviour(
            f"failed on the way: {reason}", once(says("B", finish_reason=reason)), calls=4, paid=4
        )
        for reason in (
            *("error", "server_error", "function_call_filter: MALFORMED_FUNCTION_CALL"),
            "malformed_model_output",
        )
    ),
    Behaviour(
        "failed on the way without a count",
        once(says("B", finish_reason="error", usage={"prompt_tokens": None, "total_tokens": 0})),
        calls=4,
        paid=3,
    ),
    Behaviour(
        "an error in a choice", once(says("", error={"code": 502, "message": "x"})), calls=4, paid=4
    ),
    *(
        Behaviour(f"no error: {said}", always(http({**completion("A"), "error": said})), paid=3)
        for said in ({"message": "", "code": None}, {"message": "Success", "code": 0}, "none")
    ),
    *(
        Behaviour(f"thoughts in {name}", always(says("A", message=said)), row={"reasoning": "B?"})
        for name, said in (
            ("details", {"reasoning_details": [{"type": "reasoning.text", "text": "B?"}]}),
            ("thinking", {"thinking": "B?"}),
            ("a summary", {"reasoning_details": [{"type": "summary", "summary": "B?"}]}),
            ("a text of reasoning", {"reasoning_text": "B?"}),
        )
    ),
    *(
        Behaviour(
            f"a filter cuts a text: {reason}",
            always(says("B is", finish_reason=reason)),
            NONE,
            row={"finish_reason": reason.casefold()},
        )
        for reason in ("content_filter", "PROHIBITED_CONTENT", "ERROR_TOXIC", "MODEL_ARMOR")
    ),
    *(
        Behaviour(f"a filter: {reason}", always(said), NONE, row={"finish_reason": found})
        for reason, found, said in (
            ("a part", "refusal", says([{"type": "refusal", "refusal": "No."}])),
            ("with its reason", "content_filter", says("A", finish_reason=PROHIBITED)),
            ("an enum", "safety", says("A", finish_reason="FINISH_REASON_SAFETY")),
            ("a list", "content_filter", says("A", finish_reason="blacklist")),
        )
    ),
    Behaviour(
        "a filter without a message",
        once(http({"choices": [{"finish_reason": PROHIBITED}], "usage": BILL})),
        MIDDLE,
        error="blocked the reply (content_filter)",
        paid=3,
    ),
    *(
        Behaviour(
            f"cut off: {reason}",
            always(says("A", finish_reason=reason)),
            row={"truncated": True, "finish_reason": "length"},
        )
        for reason in (
            *("MAX_TOKENS", "model_context_window_exceeded", "max_length", "time_limit"),
            {"type": "length", "length": 200},
        )
    ),
    *(
        Behaviour(
            f"ended: {reason}",
            always(says("A", finish_reason=reason)),
            row={"truncated": False, "finish_reason": "stop"},
        )
        for reason in ("normal", "<|eot_id|>", "end")
    ),
    Behaviour("no choices", once(http(BLOCKED)), MIDDLE, error="blocked", calls=3, paid=3),
    Behaviour("log-probabilities that are none", always(says("A", logprobs=LOGPROBS))),
    # Requests
    Behaviour("no temperature", refusing("temperature", NO_TEMPERATURE), calls=4),
    Behaviour(
        "one setting after the other is refused",
        one_at_a_time("temperature", "response_format", "max_tokens"),
        calls=7,
    ),
    Behaviour(
        "a refusal repeats the request",
        repeating,
        NONE,
        error="refused the request",
        stopped="refused the request",
        calls=27,
    ),
    Behaviour(
        "a setting by another spelling",
        refusing("max_tokens", error(400, "Model x does not support parameter maxTokens.")),
        calls=4,
    ),
    Behaviour("another name for the limit", refusing("max_tokens", OTHER_LIMIT), calls=4),
    *(
        Behaviour(f"no system role: {status}: {words}", without_system(status, words), calls=calls)
        for status, words, calls in (
            (400, "System role not supported", 4),
            (400, "Only user and assistant roles are supported!", 4),
            (400, "A conversation must start with a user message.", 4),
            (422, "messages[0].role: Input should be 'user' or 'assistant'", 4),
            (500, "Jinja: conversation roles must alternate user/assistant", 5),
        )
    ),
    Behaviour("no word of streams", refusing("stream", error(400, "Unknown field: stream"))),
    *(
        Behaviour(f"no schema, {status}", refusing("response_format", error(status, "no")), calls=4)
        for status in (400, 422, 501)
    ),
    Behaviour("no provider of a schema", refusing("response_format", UNSERVED), calls=4),
    Behaviour(
        "one reply missed the schema", once(error(400, "x", code="json_validate_failed")), calls=4
    ),
    # Statuses
    Behaviour("a wrong key", always(error(401, "bad\nkey")), stopped=WRONG_KEY, calls=1),
    *(
        Behaviour(
            f"a wrong key, 200: {body}", always(http(body)), stopped=WRONG_KEY, calls=1, paid=0
        )
        for body in (
            {"detail": "Not authenticated"},
            {"error": "Unauthorized"},
            {"success": False, "error": [{"code": 2009, "message": "Unauthorized"}]},
            {"success": False, "errors": [{"code": 10000, "message": "Authentication error"}]},
            {"code": "UNAUTHENTICATED", "message": "x"},
        )
    ),
    *(
        Behaviour(f"quota: {words}", always(error(429, words, code=code)), stopped=NO_QUOTA)
        for words, code in (
            ("x", "insufficient_quota"),
            ("x", "billing_not_active"),
            ("You exceeded your current quota, please check your plan and billing details.", ""),
            ("Quota exceeded for metric: requests, limit: 0. Please retry in 20s.", ""),
            ("余额不足或无可用资源包,请充值。", "1113"),
        )
    ),
    *(
        Behaviour(
            f"no money, {status}: {words}",
            after_one(error(status, words, code=code)),
            ("A",),
            stopped=NO_QUOTA,
            calls=2,
        )
        for status, words, code in (
            (402, "Insufficient Balance", ""),
            (400, "Your credit balance is too low to access the API.", ""),
            (400, "Billing hard limit has been reached", "billing_hard_limit_reached"),
            (400, "Budget has been exceeded! Current cost: 10", ""),
            (400, "Access denied, your account is not in good standing.", "Arrearage"),
            (403, "Sorry, your account balance is insufficient", ""),
            (403, "Key limit exceeded (total limit).", ""),
            (403, "Your team has used all available credits.", ""),
            (403, "Your account has an overdue balance.", "AccountOverdueError"),
            (403, "The free tier of the model has been exhausted.", ""),
            (412, "The account is suspended: it reached the monthly spending limit.", ""),
            (400, "You have reached your specified API usage limits.", ""),
            (400, "ExceededTokenBudget: Current spend for token: 2; Max Budget for Token: 1", ""),
            (401, "ExceededBudget: User=x over budget. Spend=2, Budget=1", ""),
            (429, "Too many tokens per day, please wait before trying again.", ""),
            (429, "You use a Trial key, which is limited to 1000 API calls / month.", ""),
        )
    ),
    *(
        Behaviour(f"a wrong key, 400: {words}", always(error(400, words)), stopped=WRONG_KEY)
        for words in ("API key not valid. Please pass a valid API key.", "Invalid API key")
    ),
    *(
        Behaviour(
            f"a key that ends on the way: {name} {words}",
            after_one(http({name: words}, status)),
            ("A",),
            stopped=f"refused the key ({status}: {words})",
            calls=2,
        )
        for status, name, words in (
            (403, "message", "The security token included in the request is expired"),
            (403, "Message", "Bearer Token has expired"),
            (400, "message", "Organization has been restricted."),
        )
    ),
    *(
        Behaviour(
            f"a web page with {status}",
            always(http(PAGE, status)),
            stopped="has no LM at this address (a web page: Log in): check --api-base",
            calls=1,
            paid=0,
        )
        for status in (200, 400, 403, 404)
    ),
    Behaviour("a page once", once(http(PAGE)), calls=4, paid=3),
    Behaviour("no such method", always(error(405, "No")), stopped="--api-base", calls=1),
    *(
        Behaviour(f"no model: {words}", always(error(status, words, code=code)), stopped=NO_MODEL)
        for status, words, code in (
            (404, "The model `x` does not exist", ""),
            (400, "x", "model_not_found"),
            (400, "Model Not Exist", ""),
            (400, "The model `x` has been decommissioned", "model_decommissioned"),
            (400, "The provided model identifier is invalid.", ""),
            (400, "No models loaded. Please load a model.", ""),
            (403, "The project has no access to model `x`", "model_not_found"),
            (403, "You don't have access to the model with the specified model ID.", ""),
            (400, "Invocation of model ID x with on-demand throughput isn't supported.", ""),
            (400, "Unable to access non-serverless model x.", "model_not_available"),
            (400, "'x' is not supported by any provider you have enabled", "model_not_supported"),
        )
    ),
    *(
        Behaviour(
            f"no room: {words}", always(error(500, words)), stopped="choose a smaller one", calls=1
        )
        for words in (
            "model requires more system memory (5.6 GiB) than is available (3.1 GiB)",
            "llama runner process has terminated: cudaMalloc failed: out of memory",
            "unable to load model: /models/blobs/sha256-1",
        )
    ),
    Behaviour(
        "no room for a moment", once(error(500, "model requires more system memory")), calls=4
    ),
    Behaviour("no access", always(error(403, "no")), stopped=WRONG_KEY, calls=1),
    *(
        Behaviour(f"{status} for one question", once(error(status, words)), MIDDLE, words)
        for status, words in ((403, "flagged"), (404, "no allowed providers"), (451, "law"))
    ),
    *(
        Behaviour(
            f"flagged with {status}, {code}",
            once(error(status, words, code=code), at=0),
            (None, "A", "A"),
            f"({status}: {words})",
            calls=3,
            paid=2,
        )
        for status, words, code in (
            (403, "x requires moderation: your input was flagged", None),
            (403, "The answer was refused.", "content_filter"),
            (424, "Prompt blocked due to security configurations", None),
        )
    ),
    Behaviour("too long", once(LONG), MIDDLE, "refused the request", calls=3, paid=2),
    *(
        # No change of the request is tried here either.
        Behaviour(
            f"flagged: {words}",
            once(error(400, words, code=code), at=0),
            (None, "A", "A"),
            f"(400: {words})",
            calls=3,
            paid=2,
        )
        for words, code in (
            ("It triggered Azure OpenAI's content management policy.", "content_filter"),
            ("Input data may contain inappropriate content.", "data_inspection_failed"),
            ("Content Exists Risk", "invalid_request_error"),
            (
                "Your prompt was flagged as potentially violating our usage policy.",
                "invalid_prompt",
            ),
        )
    ),
    *(
        # No change of the request is tried, not even for the first one.
        Behaviour(
            f"too long: {words}",
            once(error(400, words), at=0),
            (None, "A", "A"),
            f"(400: {words})",
            calls=3,
            paid=2,
        )
        for words in TOO_LONG
    ),
    *(
        Behaviour(words, once(http(body, status)), MIDDLE, f"({status}: {words})")
        for status, words, body in (
            (413, "a web page: Too Large", b"<html>\n<head><title>Too Large</title></head></html>"),
            (429, "Request too large for x", error(429, "Request too large for x")[2]),
            (422, "Field required", {"detail": [{"loc": ["body"], "msg": "Field required"}]}),
            (500, "Input is too long for it", {"message": "Input is too long for it"}),
            (
                400,
                "Provider refused: odd",
                {"error": {"message": "Provider refused", "metadata": {"raw": '{"msg": "odd"}'}}},
            ),
        )
    ),
    *(
        Behaviour(f"{status} for a moment", once(error(status, "busy")), calls=4, paid=3)
        for status in (408, 409, 424, 425, 429, 498, 499, 500, 502, 503, 522, 529, 530)
    ),
    *(
        Behaviour(f"an LM that broke down: {words}", once(error(400, words), at=0), calls=4, paid=3)
        for words in (
            *("The model has crashed. (Exit code: 1)", "Model unloaded.", "Channel Error"),
            "Function id 'x': DEGRADED function cannot be invoked",
        )
    ),
    Behaviour("loading", lambda b, n: error(503, "Loading model") if n < 12 else says(), calls=15),
    Behaviour("429 inside", once(error(429, "slow", inside=True, code=429)), calls=4, paid=3),
    Behaviour("a refusal inside", once(FLAGGED), MIDDLE, "flagged", paid=2),
    Behaviour("an error for a reply", once(FULL), MIDDLE, "maximum context length", paid=2),
    *(
        Behaviour(f"inside: {words}", always(http(refused_inside(words))), stopped=stopped, paid=0)
        for words, stopped in (("insufficient balance", "no quota left"), ("login fail", WRONG_KEY))
    ),
    Behaviour("a limit inside", once(http(refused_inside("rate limit"))), calls=4, paid=3),
    Behaviour(
        "inside, by a type beside it",
        once(http({"error": "`seed` is odd", "error_type": "validation"})),
        MIDDLE,
        "refused the request (422",
        calls=3,
        paid=2,
    ),
    Behaviour("its own name", once(http({"error_code": 18, "error_msg": "x"})), calls=4, paid=3),
    Behaviour(
        "a proxy that wants a name", always((407, {}, b"")), stopped="in HTTPS_PROXY as", calls=1
    ),
    Behaviour(
        "a router tells when its provider goes on",
        once(error(429, "slow", metadata=RESET)),
        ("A",),
        stopped="asks to wait until",
        calls=2,
    ),
    *(
        Behaviour(
            f"a long wait: {words} {' '.join(headers)}",
            once(http({"error": {"message": words}}, 429, **headers)),
            ("A",),
            stopped="asks to wait until",
            calls=2,
        )
        for words, headers in (
            ("Please try again in 9m38s.", {}),
            ("Please try again in 5 minutes.", {}),
            ("Retry after 1 hour", {}),
            ("Try again in 2 hours and 3 minutes.", {}),
            ("You have no capacity left. Your quota will reset after 27h41m36s.", {}),
            ("Your quota will reset in 3 days.", {}),
            ('{"resets_in_seconds": 7200}', {}),
            ("slow", {"Retry_After": "300s"}),
            ("slow", {"Retry_After": "2h30m"}),
            ("slow", {"RateLimit_Reset": "9000"}),
            ("slow", {"retry_after_ms": "300000"}),
            ("slow", {"Retry_After": str(int(time.time()) + 9000)}),
            ("slow", {"X_RateLimit_Reset": str(int(time.time()) + 9000)}),
        )
    ),
    Behaviour("the exact wait wins", once(EXACT), calls=4, paid=3),
    *(
        Behaviour(f"a wait without sense: {words}", once(error(429, words)), calls=4, paid=3)
        for words in ("Try again in 99999999999999 s.", '"X-RateLimit-Reset": 1741305600000000')
    ),
    # The bill
    Behaviour(
        "a total with thoughts",
        always(says(usage={"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 40})),
        row={"usage.completion_tokens": 31, "usage.reasoning_tokens": 30},
    ),
    Behaviour(
        "a total alone",
        always(says(usage={"prompt_tokens": 9, "total_tokens": 40})),
        row={"usage.completion_tokens": 31, "usage.cost_usd": 4e-05},
    ),
    Behaviour(
        "counts as text",
        always(says(usage={"prompt_tokens": "9.0", "completion_tokens": 2.0})),
        row={"usage.prompt_tokens": 9, "usage.completion_tokens": 2},
    ),
    Behaviour(
        "another spelling",
        always(says(usage={"input_tokens": 9, "output_tokens": 2, "cached_tokens": 4})),
        row={"usage.prompt_tokens": 9, "usage.cached_prompt_tokens": 4},
    ),
    Behaviour(
        "0 in one place, and a count in another",
        always(says(usage={**BILL, **CACHED_TWICE})),
        row={"usage.prompt_tokens": 9, "usage.cached_prompt_tokens": 4},
    ),
    *(
        Behaviour(
            f"a proxy states the cost: {cost}",
            always(http(completion("A"), x_litellm_response_cost=cost)),
            row={"usage.cost_usd": found},
        )
        for cost, found in (("0.25", 0.25), ("0.0", 1.2e-05), ("None", 1.2e-05))
    ),
    Behaviour(
        "what is written to a cache",
        always(says(usage={**BILL, "prompt_tokens_details": {"cache_creation_input_tokens": 4}})),
        row={"usage.prompt_tokens": 9, "usage.cache_write_tokens": 4},
    ),
    *(
        Behaviour(
            f"the provider states the cost: {cost}",
            always(says(usage={**BILL, **cost})),
            row={"usage.cost_usd": 0.25},
        )
        for cost in (
            {"cost": 0.25},
            {"cost": "0.25"},
            {"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.25}},
            {"cost": 0.25, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.25}},
            {"cost_in_usd_ticks": 2_500_000_000},
            {"estimated_cost": 0.25},
        )
    ),
]

OWN_CLIENT = {
    *("an output_text", "a part without a type", "429 inside"),
    *("another name for the limit", "a refusal inside", "another spelling"),
    *("a part whose type is null", "a filter cuts a text: PROHIBITED_CONTENT"),
    *("a filter cuts a text: ERROR_TOXIC", "a filter cuts a text: MODEL_ARMOR"),
    *("failed on the way: error", "failed on the way: server_error"),
    *("failed on the way without a count", "thoughts in details", "thoughts in thinking"),
    "failed on the way: function_call_filter: MALFORMED_FUNCTION_CALL",
    *("cut off: max_length", "a filter: a part", "a filter: with its reason", "a filter: an enum"),
    *("a part in capitals", "failed on the way: malformed_model_output", "a filter: a list"),
    *("thoughts in a summary", "thoughts in a text of reasoning", "cut off: time_limit"),
    *(one.name for one in BEHAVIOURS if one.name.startswith("streams alone")),
}
"""Behaviours to which LiteLLM answers in its own way before folkmoot sees them."""

BY_DAY = {"thoughts", "no temperature", "a wrong key", "too long", "429 for a moment"}
"""Behaviours that LiteLLM's route is tried on by day, too."""

TRIED = [
    pytest.param(
        *(one, route),
        id=f"{one.name}-{route}",
        marks=[] if route == "openai/x" or one.name in BY_DAY else pytest.mark.nightly,
    )
    for one in BEHAVIOURS
    for route in ROUTES
    if route == "openai/x" or one.name not in OWN_CLIENT
]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("behaviour", "route"), TRIED)
def test_behaviour(behaviour, route, tmp_path, monkeypatch):
    monkeypatch.setenv("MISTRAL_API_KEY", "a-key-of-the-provider")
    arrived: list[dict[str, Any]] = []

    def answer(handler: Any) -> Said:
        arrived.append(json.loads(handler.body))
        return behaviour.answer(arrived[-1], len(arrived) - 1)

    with Server(answer) as server:
        lm = fm.lm(route, api_base=server.url, price=(1e-6, 1e-6), max_tokens=200)
        result, stopped = None, ""
        try:
            given: Any = {"tracking": False, "cache": False, "progress": False, "concurrency": 1}
            result = fm.evaluate(fm.SingleAgent(), questions(3), lm=lm, out=tmp_path, **given)
            stopped = result.stopped or ""
        except fm.UserError as problem:
            stopped = str(problem)
    assert behaviour.stopped in stopped
    assert bool(stopped) == bool(behaviour.stopped)
    assert "\n" not in stopped
    if behaviour.calls is not None:
        assert len(arrived) == behaviour.calls
    if behaviour.paid is not None:
        assert totals(tmp_path).calls == behaviour.paid
    if result is None:
        assert (tmp_path / "results.jsonl").read_text() == ""
        return
    assert behaviour.note in " ".join(result.summary.requests)
    rows = list(result.rows)
    assert tuple(row["answer"] for row in rows) == behaviour.answers
    for row in rows:
        assert (row["error"] is not None) == (row["answer"] is None and bool(behaviour.error))
        assert behaviour.error in (row["error"] or behaviour.error)
        for name, value in behaviour.row.items():
            whole, _, part = name.partition(".")
            assert (row[whole][part] if part else row[whole]) == value  # type: ignore[literal-required]


MEANINGS = [
    *(
        (BillingError, status, words)
        for status, words in (
            (403, "User's credit limit is insufficient, remaining credit limit: $0"),
            (403, "Insufficient USD or Diem balance to complete request."),
            (403, "用户额度不足 (insufficient_user_quota)"),
            (401, "该令牌额度已用尽"),
            (400, "账户已欠费，请充值"),
            (403, "token quota is not enough, token remain quota: $0.1"),
            (403, "Your newly created team doesn't have any credits or licenses yet."),
            (429, "Your billing account has exceeded its monthly spending cap"),
            (403, "Out of call volume quota. Quota will be replenished in 12:34:56."),
            (400, "Your account does not have a valid CodingPlan subscription."),
            (429, "Your current subscription plan does not yet include access to GLM-5V-Turbo"),
            (403, "API key budget limit exceeded (daily limit)"),
            (429, "Please retry in 34.07s. (GenerateRequestsPerDayPerProjectPerModel-FreeTier)"),
            (429, "已达到每周/每月使用上限"),
            (429, "Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-07-02 17:39:49"),
            (403, "Your account has run out of credits. Please top up."),
            (400, "This request requires more credits, or fewer max_tokens."),
            (403, "You've hit your monthly included credits for Inference Providers."),
            (400, "Your organization's monthly usage limit has been reached"),
            (403, "You have reached your quota for this billing period"),
            (429, "you have used up your daily free allocation of 10,000 neurons"),
            (403, "BILLING_DISABLED: This API method requires billing to be enabled"),
            (400, "Open api daily request limit reached"),
            (429, "You exceeded your current quota"),
        )
    ),
    *(
        (AuthError, status, words)
        for status, words in (
            (403, "The request signature we calculated does not match the one you provided."),
            (403, "API key has been disabled"),
            (403, "Permission denied: Consumer 'api_key:AIza' has been suspended."),
            (403, "Your API key was reported as leaked. Please use another API key."),
            (403, "Generative Language API has not been used in project 1 or it is disabled."),
            (400, "Missing or invalid Authorization header."),
            (400, "No auth credentials found"),
            (400, "This organization has been disabled."),
            (403, "Your account has been flagged for unusual activity."),
            (403, "Your account was suspended for violations of our policies"),
            (400, "No API key found in request"),
            (400, "Your organization must be verified to use the model `o3`"),
            (400, "令牌已过期或验证不正确"),
        )
    ),
    *(
        (UnsupportedModelError, status, words)
        for status, words in (
            (400, "Unavailable model: gpt-5"),
            (400, "unsupported model"),
            (400, "The chatCompletion operation does not work with the specified model, x."),
            (400, "模型不存在，请检查模型代码。"),
            (400, "Model x is not supported by provider hf-inference."),
            (400, "Requested model x is not available"),
            (400, "Model not loaded"),
            (400, "model_is_deactivated"),
            (400, "This is not a chat model and thus not supported in v1/chat/completions"),
            (400, "This model is only supported in v1/responses."),
            (400, "The supported API model names are deepseek-chat, but you passed x."),
            (400, "The model x has been deprecated"),
            (403, "Model access is denied due to IAM user or service role"),
            (403, "key not allowed to access model. This key can only access models=['y']"),
            (503, "No available channel for model x under group default (distributor)"),
        )
    ),
    *(
        (TooLongRequest, status, words)
        for status, words in (
            (400, "The decoder prompt (length 9) is longer than the maximum model length of 4"),
            (400, "Request too long: 9 input tokens over the limit of 4"),
            (404, "Context limit is 4 tokens; prompt=9 leaves 0 output tokens"),
            (400, "total tokens exceeds the model's maximum limit of 4096"),
            (400, "INVALID_ARGUMENT: input exceeds the maximum number of tokens"),
            (400, "the maximum supported sequence length is just 8192!"),
            (400, "Input tokens exceed the configured limit of 272000 tokens."),
            (400, "litellm.ContextWindowExceededError: x"),
            (400, "The engine prompt length 9 exceeds the max_model_len 4."),
            (400, "The sum of prompt length (9) and max_tokens exceeds 4"),
            (400, "slot context: 4 tokens, prompt 9 tokens"),
            (400, "Prompt 超长"),
            (400, "Prompt tokens too long"),
            (400, "Tokens in the prompt exceed the limit 9 > 4"),
            (400, "request body too large"),
        )
    ),
    *(
        (TransientError, status, words)
        for status, words in (
            (400, "ThrottlingException: Too many tokens, please wait before trying again."),
            (400, "The model is currently overloaded. Please try again later."),
            (400, "concurrency limit has been reached"),
            (400, "Model is not ready for inference. Wait and try your request again."),
            (400, "Server is busy, please try again later"),
            (400, "模型当前访问量过大，请您稍后再试"),
            (400, "Open api qps request limit reached"),
            (429, "Please retry in 14.07s. (GenerateRequestsPerMinutePerProjectPerModel-FreeTier)"),
        )
    ),
    *(
        (RefusedRequest, status, words)
        for status, words in (
            (400, "The request failed because the input text may contain sensitive information."),
            (403, "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO."),
            (403, "The request was rejected because it was considered high risk"),
            (403, "Your request was rejected by our safety system."),
            (403, "hooks_failed: a guardrail of the gateway did not pass"),
            (403, "The content you provided or machine outputted is blocked."),
            (403, "It violates our Acceptable Use Policy"),
            (403, "Prompt injection detected"),
            (403, "您的输入包含违规内容"),
            (400, "Parameter 'seed' is not supported with this model."),
            (400, "logprobs is not supported for this model"),
            (400, "Range of max_tokens should be [1, 8192]"),
            (400, "The requested model is not available with logprobs"),
            (400, "Unsupported model feature: seed"),
            (400, "Your subscription plan does not include logprobs"),
            (400, "`temperature` is deprecated for this model."),
            (400, "Requested max_tokens exceeds the model output limit"),
            (400, "The `reasoning_content` in the thinking mode must be passed back to the API."),
        )
    ),
    *(
        (FatalCallError, 400, words)
        for words in (
            "Client sent an HTTP request to an HTTPS server.",
            "<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>",
        )
    ),
]


@pytest.mark.parametrize(("kind", "status", "words"), MEANINGS)
@pytest.mark.parametrize("answered", [False, True])
def test_what_the_words_of_a_failure_mean(kind, status, words, answered):
    endpoint = AskedEndpoint("https://there/v1", "x", "OPENAI_API_KEY", answered, status)
    text = words if words.startswith("<") else json.dumps({"error": {"message": words}})
    found = failure_of(status, text, {}, endpoint)
    asked = {"messages": [{"content": [{"text": f"Does it say:\n{words}"}]}]}
    repeats = json.dumps({"detail": [{"msg": "bad value", "input": asked}]})
    quoted = failure_of(400, repeats, {}, replace(endpoint, answered=True, request=asked))
    assert (type(quoted) is RefusedRequest) or len(words) < LEAST_QUOTED, "a question decides"
    if answered and kind is UnsupportedModelError:  # which is right, since it has answered
        kind = TransientError if status == 503 else RefusedRequest
    assert type(found) is kind


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("reasoning_effort", '"x" does not support thinking'),
        ("reasoning_effort", 'think value "low" is not supported for this model'),
        ("presence_penalty", "Penalty is not enabled for models/gemini-2.5-pro"),
        ("presence_penalty", "Argument not supported on this model: presencePenalty"),
        ("stop", "Stop sequences are not supported with this model"),
        ("stop", "Remove stopSequences and try again"),
        ("seed", "random_seed: Extra inputs are not permitted"),
        ("temperature", "Sampling parameters are not supported by this model"),
        # a server that repeats the question in its refusal
        ("seed", '{"detail": [{"msg": "no seed", "input": "Which content is inappropriate?"}]}'),
        ("service_tier", "Invalid service tier"),
        ("verbosity", "'x' is not supported. Supported values are: 'medium'."),
    ],
)
def test_a_setting_is_refused_by_another_name(name, words):
    refusal = RefusedRequest(words, 400, words)
    (change,) = changes_of(Habits(), refusal, {name: "x", "messages": []}, 1)
    assert change.name == name


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("https://there/v1/chat/completions", "https://there/v1"),
        ("/api/v1/chat/completions/", "http://here/api/v1"),
        ("/v1/chat/completions/", "itself"),
        ("https://me:word@sso/login?key=1", "https://sso"),
        ("//[", "something that is not an address"),
    ],
)
def test_where_a_redirect_leads(location, place):
    headers = {"location": location}
    endpoint = AskedEndpoint("http://here/v1", "x", "OPENAI_API_KEY", False, 307)
    assert f"redirects to {place} (307)" in str(failure_of(307, "", headers, endpoint))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("answers", [True, False])
def test_a_refusal_comes_first(route: str, answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the key or the question is at fault shows in the calls that are still under way."""
    monkeypatch.setenv("MISTRAL_API_KEY", "a-key-of-the-provider")

    def answer(handler: Any) -> Said:
        refused = b"Question 1?" in handler.body
        if not refused:
            time.sleep(0.3)
        return says() if answers and not refused else error(403, "no")

    with Server(answer) as server:
        lm = fm.lm(route, api_base=server.url)
        given: dict[str, Any] = {"tracking": False, "cache": False, "progress": False}
        if not answers:
            with pytest.raises(fm.UserError, match="refused the key"):
                fm.evaluate(fm.SingleAgent(), questions(4), lm=lm, **given)
            return
        result = fm.evaluate(fm.SingleAgent(), questions(4), lm=lm, **given)
    assert result.stopped is None
    assert [row["id"] for row in result.rows if row["error"]] == ["q1"]
