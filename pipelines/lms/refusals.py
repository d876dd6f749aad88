"""What a response without a reply means: which failure it is, by status and words, and what could
be changed about a request that was refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urljoin, urlsplit

from ...modules.base.calls import (
    AuthError,
    BillingError,
    CallError,
    ContextLengthError,
    EndpointDown,
    FatalCallError,
    UnsupportedModelError,
)
from ...modules.base.connections import LENGTH, seconds_in, seconds_to_wait, until
from ...modules.base.fence import one_line
from ...modules.reading.mentions import pattern
from .failures import (
    MOST_PAUSE,
    SYSTEM,
    WORDS,
    AskedEndpoint,
    Change,
    Habits,
    RefusedRequest,
    TooLongRequest,
    TransientError,
    Trouble,
    asks_our_schema,
)

LONGEST_WAIT = 366 * 86_400.0
"""A longer wait in seconds is a mistake, such as a point in time in microseconds."""

LEAST_QUOTED = 20
"""The characters of a line of a request that a server is taken to repeat; an error may have a
shorter one of its own.
"""
_NO_MONEY = pattern(
    r"insufficient[ _](?:\w+[ _]){0,4}?(?:quota|balance|credit|fund)|credit balance|"
    r"(?:balance|credit limit|quota) is (?:insufficient|not enough)|have any credits|"
    r"billing_not_active|billing_hard_limit|budget_exceeded|budget has been exceeded|arrearage|"
    r"used all available credits|spending (?:limit|cap)|api usage limits|key limit exceeded|"
    r"budget limit exceeded|out of (?:call volume quota|extra usage)|codingplan subscription|"
    r"subscription plan does not (?:yet )?include access|余额不足|额度不足|额度已用尽|欠费|"
    r"overdue balance|free tier of the model has been exhausted|exceeded\w*budget|"
    r"billing_disabled|额度已用完"
)
_NO_CREDIT = pattern(
    r"(?:out of|no|more|included) credits|credits have been (?:exhausted|used up)|payment method|"
    r"free allocation|subscription quota|trial (?:has )?(?:expired|ended)"
)
"""The same in words that a question may have, too, which some servers repeat."""
_LIMIT_REACHED = pattern(
    r"(?:usage|spend|cost|daily|weekly|monthly)\b.{0,20}\blimit\b.{0,20}\b(?:reached|exceeded)|"
    r"reached your quota|quota (?:is |has been )?(?:reached|exceeded|exhausted|used up)"
)
"""What is said of a limit with a status that is not that of a moment."""
_LIMIT_ABOVE_0 = pattern(r"\blimit: [1-9]")
_NO_ACCESS = pattern(
    r"api[ _-]?key[ _](?:is )?(?:not[ _]valid|invalid|expired)|login fail|"
    r"api[ _-]?key\b.{0,40}?\b(?:disabled|revoked|leaked|suspended)|"
    r"(?:invalid|incorrect|expired)[ _]api[ _-]?key|authorization header|auth\w* credentials|"
    r"unsupported_country|not available in your|location is not supported|request signature|"
    r"security token|token (?:has|is) expired|organization has been (?:restricted|disabled)|"
    r"has not been used in project|account\b.{0,40}?\b(?:suspended|deactivated|restricted)|"
    r"account has been flagged|(?:malformed|missing|no)[ _]api[ _-]?key|must be verified|令牌|"
    r"api[ _-]?key[ _](?:is )?(?:required|missing)|invalid authentication"
)
"""Said if a key is wrong or has expired, or its account or region is not served."""
_NO_LOGIN = pattern(r"unauthori[sz]ed|not authenticated|authentication|invalid token")
"""Said, with status 200, if a call has no known key."""
_FAR_LIMIT = pattern(r"(?:per|/) ?(?:day|week|month)\b|\b(?:daily|weekly|monthly)\b|每[日周月]")
"""Said of a rate limit that ends on another day."""
_NO_MODEL = pattern(
    r"model_not_found|model_decommissioned|decommissioned|model_is_deactivated|no such model|"
    r"(?:invalid|unknown|unavailable|unsupported)[ _]model(?! (?:feature|param|setting))|"
    r"does not work with the specified model|"
    r"not a valid model|deploymentnotfound|no models? loaded|model not loaded|failed to load model|"
    r"with on-demand throughput|access to the model|model_not_available|model_not_supported|"
    # not `temperature of this model is not supported`, nor `… for function calling`
    r"(?:^|\"|the |requested )model(?: \S+)? is not (?:supported|available)\b(?! (?:for|with) )|"
    r"模型不存在|not a chat model|only supported in v1/responses|accessible via the /|"
    r"supported api model names|"
    r"model(?: \S+)? (?:has been |is |was )?(?:deprecated|retired|disabled)\b|model_?not_?open|"
    r"marked by provider as legacy|allowed to access model|llm provider not provided|"
    r"model access is denied|"
    r"models?\b.{0,120}?\b(?:not exist|not found|not supported for this api|identifier is invalid)",
    re.DOTALL,
)
_UNSERVED = "can handle the requested parameters"
"""Said by OpenRouter, with status 404, of settings that no provider of a model accepts."""
_NO_CHANNEL = pattern(r"no available channel|无可用渠道")
"""Said by routers, with status 503, of a model that none of their providers has."""
_TOO_LONG = pattern(
    r"context_length_exceeded|exceed_context_size|string_above_max_length|contextwindowexceeded|"
    r"context (?:length|window|size|limit)|maximum context|supported sequence length|max_model_len|"
    r"(?:prompt|input|messages|request) (?:is )?too long|maximum model length|slot context|"
    r"too many (?:input )?tokens|longer than the specified maximum|model token limit|"
    r"less than [\d,]+ tokens|\binputs\b.{0,9}tokens|total text bytes|input_tokens must be less|"
    r"range of input length|input (?:length|token count|tokens)\b.{0,80}exceed|reduce the length|"
    r"(?:input|total tokens) exceeds|maximum number of tokens exceeded|"
    r"maximum prompt length|length of prompt_tokens|prompt (?:token count\b.{0,20})?exceeds|"
    r"prompt length\b.{0,40}exceeds|too large to process|内容过长|超长|超过最大长度|上下文长度|"
    r"prompt (?:tokens|size)\b.{0,20}(?:too long|exceed)|tokens in the prompt exceed|"
    r"maximum input length|context_exceeded|(?:payload|body) too large",
    re.DOTALL,
)
_PASSING = pattern(
    r"model has (?:crashed|unloaded)|model (?:crashed|unloaded)|channel error|degraded function|"
    r"throttlingexception|(?:model|server|service) is (?:\w+ )?(?:overloaded|busy)|"
    r"concurrency limit|try again later|too many connections|not ready for inference|访问量过大|"
    r"(?:qps|rpm)\b.{0,20}limit|rate limit exceeded|upstream (?:connect|request timeout)"
)
"""Said with status 400 of an LM that has crashed (LM Studio, NVIDIA) or is overloaded (others):
another attempt may succeed.
"""
_TLS_ALONE = pattern(
    r"http request (?:to an https server|was sent to https port)|speaking plain http to"
)
"""Said by servers in Go, nginx and Apache to plain HTTP on a port for TLS."""
_NO_ROOM = pattern(
    r"requires more (?:system |gpu )?memory|(?:unable|failed) to load model|error loading model|"
    r"insufficient system resources|cudamalloc failed|unable to allocate\b.{0,30}\bbuffer"
)
"""Said of a model for which the server's machine has too little memory."""
_LOADING = pattern(r"\b(?:loading|starting up|warming up)\b")
_STATED_WAIT = pattern(rf"(?:try again|retry|wait|resets?\b)\D{{0,30}}?(?=\d){LENGTH}")
_RETRY_DELAY = pattern(
    # Google's own, that of a router which repeats its provider's header, and others' fields.
    r'"(?:retrydelay"\s*:\s*"(?=\d+(?:\.\d+)?s")|'
    r"(?:x-ratelimit-reset|retry_?after(?:_seconds)?|resets?_(?:at|in_seconds))\"\s*:\s*\"?)"
    r"(\d+(?:\.\d+)?)"
)
_OF_WORDS: Mapping[str, int] = {
    "rate_limit": 429,
    "too_many_requests": 429,
    "resource_exhausted": 429,
    "throttling": 429,
    "insufficient_quota": 429,
    "overloaded": 529,
    "timeout": 408,
    "unavailable": 503,
    "invalid_request": 400,
    "invalid_argument": 400,
    "context_length_exceeded": 400,
    "content_filter": 403,
    "validation": 422,
    "moderation": 403,
    "unauth": 401,
    "authentication": 401,
    "invalid_api_key": 401,
    "insufficient_balance": 402,
    "not_found": 404,
}
"""Part of an error's code → the status it means, for errors in responses with status 200."""
_NO_ENDPOINT = re.compile(
    r'\{"error":\s*(?:\{"message":\s*)?"(?:unexpected endpoint|not implemented\b)|'
    r"(?:model|deployment)\b.{0,60}\bnot support\b.{0,20}\bresponses api|"
    r"responses api is (?:not|enabled only)|not accessible via the /(?:responses|messages)|"
    r"is not supported for format"
)
"""The words for a path that a server does not have, which LM Studio says with status 200, routers
with 500 and Azure with 400.
"""
_OF_TEXTS = (
    *((_NO_MONEY, 402), (_NO_ACCESS, 401), (re.compile(r"rate[ _]limit"), 429)),
    *((_NO_ENDPOINT, 404), (_NO_LOGIN, 401)),
)
"""Pattern in an error's words → the status it means, for errors without a known code."""
_PAGE = pattern(r"\s*<(?:.*?<title>(.*?)</title>|(?:!doctype )?html\b)", re.DOTALL | re.IGNORECASE)
_BEHIND = (502, 503, 504, *range(520, 528), 530)
"""The statuses of a gateway, such as Cloudflare, if the server behind it does not answer."""
_NO_PATH = (404, 405, 501)
"""The statuses for an unknown path."""
_OF_PATH = re.compile(r"/(?:chat/completions|completions|responses|messages|embeddings)$")


def failure_of(
    status: int, text: str, headers: Mapping[str, str], endpoint: AskedEndpoint
) -> TransientError | CallError:
    """Return the failure that a response with this HTTP status and text means.

    A status that may concern the account or only this request (403, 404) is taken to concern the
    account until a call has been answered, and from then on this request.
    """
    reason, own = error_in(text), _without_request(text, endpoint.request)
    said = error_in(own).casefold()
    words = f"{own.casefold()} {said}"  # both, since JSON may write letters as escapes
    name, model, key = endpoint.name, endpoint.model, endpoint.key
    broke = status in (400, 401, 403, 412) and (
        _NO_MONEY.search(words) or _LIMIT_REACHED.search(said) or _NO_CREDIT.search(said)
    )
    limited = status == 429 and (_out_of_money(words) or _NO_CREDIT.search(said))
    if status == 402 or broke or limited:
        return _no_quota(name, status, reason)
    # Amazon and some routers report what is only for a moment with status 400.
    passing = status == 400 and _PASSING.search(words) is not None
    refused = f"{name} refused the request ({status}: {reason})"
    # OpenAI's rate limit for a request with more tokens than a minute allows: it never succeeds.
    never = status == 429 and "request too large" in words
    too_long = status in (400, 404, 422, 500) and not passing and _TOO_LONG.search(words)
    if status == 413 or never or too_long:
        return TooLongRequest(refused, status, text)
    # Not if it was loaded before: then it may be loaded again after a moment.
    if status >= 500 and not endpoint.answered and _NO_ROOM.search(words):
        return EndpointDown(
            f"{name} cannot load the model {model!r} ({status}: {reason}): choose a smaller one, "
            "or free memory there"
        )
    # 424 is Cloudflare's status for a prompt that its guardrails block, but TGI's for a reply that
    # failed midway. 498 is Groq's for a flex tier without capacity, 499 that of a cancelled call.
    flagged = _flagged(text, said)
    if status in (408, 409, 425, 429, 498, 499) or (status == 424 and not flagged):
        passing = True
    no_channel = status == 503 and not endpoint.answered and _NO_CHANNEL.search(words)
    if passing or (status >= 500 and status != 501 and not no_channel):
        return _of_the_moment(status, reason, words, headers, name)
    if status == 401 or (status in (400, 403) and _NO_ACCESS.search(words)):
        return AuthError(f"{name} refused the key ({status}: {reason}): set {key} to a valid key")
    if 300 <= status < 400:
        place = _place_of(headers.get("Location") or headers.get("location") or "", name)
        return FatalCallError(
            f"{name} redirects to {place} ({status}), which is refused, since "
            "key and prompt would go there: give that address as --api-base if you trust it"
        )
    if status == 407:
        return FatalCallError(proxy_refuses(f"the proxy before {name}", "407"))
    if status == 400 and _TLS_ALONE.search(words):
        return speaks_tls(name)
    refusal = RefusedRequest(refused, status, text)
    if endpoint.answered or flagged or _UNSERVED in words:
        return refusal
    account = _account_at_fault(status, text, reason, words, endpoint)
    if account is None:
        return refusal
    # Another call in flight may be answered: then key and model are right, and only this request is
    # at fault.
    account.if_answered = refusal
    return account


def _without_request(text: str, request: Mapping[str, object]) -> str:
    """Return a response without lines of the request, which some servers repeat: what a question
    says must not decide what a failure means.
    """
    for said in _texts_in([request.get(name) for name in ("messages", "prompt", "input")]):
        for line in said.splitlines():
            if len(line) >= LEAST_QUOTED:
                text = text.replace(line, "").replace(json.dumps(line)[1:-1], "")
    return text


def _texts_in(part: object) -> Iterator[str]:
    """Yield the texts at any depth of JSON."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from _texts_in(inner)


def _account_at_fault(
    status: int, text: str, reason: str, words: str, endpoint: AskedEndpoint
) -> EndpointDown | None:
    """Return the failure of the address, the key or the LM's name that a refusal may mean if no
    call has been answered yet; None if it means none of these.
    """
    name = endpoint.name
    # A web page does not come from an API, so it says nothing about keys and models.
    page, no_model = is_page(text), _NO_MODEL.search(words)
    unknown = status in (404, 405, 410, 503)
    if status in (400, 403) and (no_model or page):
        unknown = True
    meant = None
    if page or (lacks_path(status, text) and not no_model):
        meant = _correct_address(name)
    if unknown and (page or meant):
        advice = "check --api-base"
        if meant:
            advice = f"did you mean --api-base {meant}?"
        return EndpointDown(f"{name} has no LM at this address ({reason}): {advice}")
    if unknown:
        return UnsupportedModelError(
            f"{name} does not know the model {endpoint.model!r} ({reason}): check --lm and "
            "--api-base"
        )
    if status == 403:
        return AuthError(
            f"{name} refused the key (403: {reason}): set {endpoint.key} to a valid key"
        )
    return None


def _no_quota(name: str, status: int, reason: str) -> BillingError:
    """Return the failure of an account without money or quota."""
    return BillingError(
        f"{name} has no quota left for this key ({status}: {reason}): top it up or use another"
    )


def speaks_tls(name: str) -> FatalCallError:
    """Return the failure of a call in plain HTTP to a port for TLS."""
    return FatalCallError(f"{name} speaks TLS: write https://")


def proxy_refuses(proxy: str, answer: str) -> str:
    """Return the sentence about a proxy that refuses a connection."""
    return (
        f"{proxy} refuses the connection ({answer}): give its name and password in HTTPS_PROXY as "
        "http://NAME:PASSWORD@HOST:PORT, or the endpoint's host in NO_PROXY"
    )


def is_page(text: str) -> bool:
    """Return whether a response is a web page: then another server than the API has answered."""
    return _PAGE.match(text) is not None


def lacks_path(status: int, text: str) -> bool:
    """Return whether a response says that the server does not have a path. A 404 may also mean an
    unknown model, but then its words mention the model; and some servers send a web page for any
    path.
    """
    if is_page(text):
        return status < 300 or status in _NO_PATH
    words = text.casefold()
    return (status in _NO_PATH and "model" not in words) or bool(_NO_ENDPOINT.search(words))


def _correct_address(name: str) -> str | None:
    """Return a likely correction of an endpoint's address; None if it looks right, or is only a
    name.
    """
    meant = _OF_PATH.sub("", name)
    if not re.search(r"/v\d", meant):
        meant += "/v1"
    if "://" not in name or meant == name:
        return None
    return meant


def _place_of(location: str, name: str) -> str:
    """Return the address in a redirect. Since path and query may contain secrets, the query is left
    out, and so is the path unless it is that of an LM's API.
    """
    try:
        parts = urlsplit(urljoin(name, location))
    except ValueError:
        return "something that is not an address"
    path = parts.path.rstrip("/")
    base = _OF_PATH.sub("", path)
    if base == path:
        base = ""
    place = one_line(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{base}")[:100]
    return "itself" if place == name or not location else place


def _out_of_money(words: str) -> bool:
    """Return whether a rate limit is one that no waiting ends, or not on the same day."""
    # "limit: 0" is Google's for a model that a key without billing never gets; "perday" is in the
    # name of its daily limit, for which it states a wait of only seconds.
    if _NO_MONEY.search(words) or "limit: 0" in words or "perday" in words:
        return True
    # Said of passing limits, too, but then with a limit above 0 or a time to wait.
    return ("plan and billing" in words or "your current quota" in words) and not (
        _LIMIT_ABOVE_0.search(words) or _stated_wait(words) is not None
    )


def _of_the_moment(
    status: int, reason: str, words: str, headers: Mapping[str, str], name: str
) -> TransientError | CallError:
    """Return the failure of the moment; that of the account if the moment lasts too long."""
    wait = seconds_to_wait(headers) or _stated_wait(words) or None
    if wait is not None and wait > LONGEST_WAIT:
        wait = None
    said = f"{name} answered {status} ({reason})"
    if wait is None and status == 429 and _FAR_LIMIT.search(words):
        return _no_quota(name, status, reason)
    if wait is not None and wait > MOST_PAUSE:
        end = datetime.now().astimezone() + timedelta(seconds=wait)
        return EndpointDown(f"{said} and asks to wait until {end:%Y-%m-%d %H:%M}: continue then")
    kind: Trouble = "failed"
    if status == 503 and _LOADING.search(words):
        kind = "loading"
    elif status in _BEHIND:
        kind = "down"
    elif status in (409, 425, 429, 498, 529):
        kind = "refused"
    return TransientError(said, kind, retry_after=wait, status=status)


def _stated_wait(words: str) -> float | None:
    """Return the seconds to wait that a text states, as `try again in 9m38s` does; None if none."""
    if (delay := _RETRY_DELAY.search(words)) is not None:
        return until(float(delay[1]))
    for stated in _STATED_WAIT.finditer(words):
        if any(stated.groups()):
            return seconds_in(stated)
    return None


def failure_inside(error: object, request: Mapping[str, object]) -> tuple[int, str]:
    """Return the HTTP status that an error within a response with status 200 to this request means,
    and its text.
    """
    fields = error if isinstance(error, dict) else {"message": error}
    text = json.dumps({"error": fields}, ensure_ascii=False, default=str)
    for name in ("code", "status", "status_code", "type", "error_type"):
        code = fields.get(name)
        if str(code).isdigit() and 300 <= int(str(code)) < 600:
            return int(str(code)), text
        for mark, status in _OF_WORDS.items():
            if mark in str(code).casefold():
                return status, text
    # Without a known code, the words of the error decide.
    words = _without_request(text, request).casefold()
    for form, status in _OF_TEXTS:
        if form.search(words):
            return status, text
    return 500, text


def error_in(text: str) -> str:
    """Return the endpoint's own error message on one short line, for use in ours."""
    try:
        message = _words_of(json.loads(text))
    except (ValueError, RecursionError):
        message, page = text, _PAGE.match(text)
        if page is not None:
            message = f"a web page: {page[1] or 'it has no title'}"
        if "\ufffd" in text:  # compressed, or in an encoding that JSON never has
            message = "it is not in UTF-8"
    return one_line(message)[:200] or "no message"


def _words_of(part: object) -> str:
    """Return the message in an error's JSON, wherever the provider puts it."""
    if isinstance(part, list) and part:  # the form of Google's OpenAI-compatible endpoint
        return _words_of(part[0])
    if not isinstance(part, dict):
        return str(part)
    words = next((_words_of(part[name]) for name in WORDS if part.get(name)), str(part))
    # A router's own message only says that its provider refused; the provider's is in here.
    metadata = part.get("metadata")
    if isinstance(metadata, dict):
        raw = metadata.get("raw")
        if isinstance(raw, str) and raw:
            words = f"{words}: {error_in(raw)}"
    return words


# What to change about a refused request
# ----------------------------------------------------------------------------------

_OPTIONAL = (
    *("stream", "temperature", "top_p", "top_k", "seed", "logprobs", "stop", "max_tokens"),
    *("max_completion_tokens", "frequency_penalty", "presence_penalty", "reasoning_effort"),
    *("verbosity", "service_tier", "logit_bias", "thinking", "stream_options"),
)
"""Settings that may be left out of a request."""
_CALLED = {
    "temperature": r"|sampling param\w*|temp",
    "stop": "|stop_?sequences",
    "max_tokens": "|max_(?:new|output)_tokens",
    "logprobs": "|log probabilities",
    "reasoning_effort": "|thinking|think value|effort",
    "thinking": "|budget_tokens",
    "frequency_penalty": "|penalty",
    "presence_penalty": "|penalty",
}
"""What Ollama, Google, Amazon and others call these settings when they refuse them."""

_NO_SYSTEM = pattern(
    r"\broles?\b|\b(?:system|developer)\b.{0,40}(?:instruction|message|not)|"
    r"(?:start with|must be from) (?:a )?user",
    re.DOTALL,
)
_STREAMS_ALONE = pattern(
    r"only\b.{0,20}\bstream|\bstream\b.{0,20}\b(?:to|be) true|non-?stream|stream=|"
    r"(?:enable the|requires?|must use) stream|stream\w* is (?:required|strongly)|流式"
)
"""Said of a request that does not ask for a stream if the server answers by nothing else."""
_FLAGGED = pattern(
    r"content[ _](?:filter|management policy|policy)|usage polic(?:y|ies)|flagged|moderation|"
    r"content exists risk|inappropriate|敏感|usage guidelines|new_sensitive|hooks_failed|"
    r"sensitive ?(?:information|content)|blocked due to security|guardrail|high[ -]risk|jailbreak|"
    r"safety (?:system|reasons)|due to safety|prohibited[_ ](?:content|words)|prompt injection|"
    r"(?:unsafe|harmful|toxic) content|responsibleai|model armor|security_audit|risk control|"
    r"(?:violat\w*|terms) .{0,30}(?:polic|of service)|polic\w+ violation|due to policy|"
    r"(?:prompt|content|input|output)\b.{0,40}\bblocked|prompt_blocked|content filtering|"
    r"违规内容|内容违规|不合规|安全策略|安全风险"
)
"""Said of a request whose content is refused, so that no other setting helps."""
_CODE = re.compile(r'(?<!\\)"(?:code|type|reason)"\s*:\s*"([^"\\]*)"')
_NUMBERED = re.compile(r"\S*\d\S*")
_MISSED_SCHEMA = ("json_validate_failed", "failed to generate json", "failed to validate json")


def changes_of(
    habits: Habits, problem: Exception, payload: Mapping[str, Any], attempt: int
) -> Iterator[Change]:
    """Yield the changes to try, in this order, on a request that was refused for this reason. A
    status of 500 is taken for a refusal if a second attempt has it, too.
    """
    status = getattr(problem, "status", 0)
    text = getattr(problem, "text", "") or str(problem)
    reason = error_in(text).casefold()
    words = f"{text} {reason}".casefold()
    refused = status in (400, 422, 501) or _UNSERVED in words
    refused |= status == 500 and attempt > 1
    if not refused or isinstance(problem, ContextLengthError) or _flagged(text, reason):
        return
    system = not habits.folds and _has_system(payload.get("messages") or ())
    if system and _NO_SYSTEM.search(words):
        yield Change("takes no system message: it stands in the first message", "folds")
    if payload.get("stream") is False and _STREAMS_ALONE.search(words):
        yield Change("answers by streams alone: it is asked for them", "streams")
    for name in _OPTIONAL:
        if name in payload and re.search(_named(name, payload[name]), words):
            # OpenAI's refusal of max_tokens names max_completion_tokens: it wants the other name.
            if name == "max_tokens" and "max_completion_tokens" in words:
                yield Change("wants max_completion_tokens in place of max_tokens", "renames")
            else:
                yield Change(f"does not accept {name}: it is left out", "left_out", name)
    # A schema that has worked before is only dropped if the server says that this reply missed it.
    doubtful = habits.schema is not True or missed_schema(problem)
    if doubtful and asks_our_schema(payload):
        yield Change("takes no schema of replies: the prompt alone asks for it", "schema")


def _named(name: str, value: object) -> str:
    """Return an expression for a setting in a refusal: its name, as its own server may call it,
    such as presencePenalty or `random_seed`, or its value in quotes.
    """
    said = name.replace("_", "[ ._]?") + _CALLED.get(name, "")
    if isinstance(value, str):
        said += f"|(?<=['\"]){re.escape(value.casefold())}(?=['\"])"
    return f"(?<![a-z])(?:{said})(?![a-z])"


def _flagged(text: str, reason: str) -> bool:
    """Return whether the words or the codes of a refusal name its content. The whole text is not
    searched: it may repeat the question.
    """
    said = [reason, *map(str.casefold, _CODE.findall(text))]
    return any(map(_FLAGGED.search, said))


def says_other(problem: Exception, before: Exception) -> bool:
    """Return whether two refusals have different words, apart from numbers and ids."""
    said = [_NUMBERED.sub("", getattr(one, "text", "")) for one in (problem, before)]
    return said[0] != said[1]


def missed_schema(problem: Exception) -> bool:
    """Return whether a reply did not fit its schema, which may not happen to the next one."""
    words = getattr(problem, "text", "").casefold()
    return any(mark in words for mark in _MISSED_SCHEMA)


def _has_system(messages: Sequence[Mapping[str, object]]) -> bool:
    return any(message.get("role") in SYSTEM for message in messages)
