"""Language models by name: `lm(name)` makes a `dspy.LM` for any kind of endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import dspy

from ...modules.agents.adapter import settings_of
from ...modules.agents.profile import PASSED, SAMPLING, SETTINGS, Profile
from ...modules.base.errors import UserError, checked_among, checked_whole
from ...modules.base.keyed import only, without, without_none
from ..base.run_files import LMFields, books_of
from ..base.settings import settings as settings_now
from .engine import DEFAULT_LM, Engine, SyncEngine, check_settings
from .prices import Prices, known_model, no_price, price_per_token
from .store import CallStore, read_lms

EVERY = "*"
"""Stands for all agents without an LM of their own, where LMs are given by agent."""

REASONING_TAKES = ("seed",)
"""The sampling settings that OpenAI's reasoning models accept."""
EMBEDDED = ("threads", "context", "slots")
"""The settings of LMs inside this process."""

MOST_PER_TOKEN = 0.01
"""USD; the dearest LMs cost less than a tenth of it."""
LOCAL_MAX_TOKENS = 1024
"""The default limit on the tokens of an embedded LM's reply, which ends replies that repeat
themselves.
"""

__all__ = ["DEFAULT_LM", "SAMPLING", "SETTINGS", "engine_of", "lm", "lm_identity", "settings_of"]


def lm(
    name: str | None = None,
    *,
    api_base: str | None = None,
    api_key: str | None = None,
    concurrency: int = 64,
    timeout: float | None = None,
    threads: int | None = None,
    context: int | None = None,
    slots: int | None = None,
    profile: Profile | None = None,
    answer_form: str | None = None,
    list_options: bool | None = None,
    price: Sequence[float | None] | None = None,
    **sampling: Any,
) -> dspy.LM:
    """Return a language model by name, for any folkmoot or DSPy program.

    Args:
        name: `openai/MODEL` (OpenAI, or any compatible endpoint with `api_base`), any other LiteLLM
            name, `local/MODEL`, or `replay/DIR` (answers of a recorded run). Default: FOLKMOOT_LM,
            else `local/gemma-3-270m`.
        api_base: Address of an OpenAI-compatible endpoint, up to /v1.
        api_key: the key; None takes it from the environment (`OPENAI_API_KEY`, or the provider's
            own variable). It is kept nowhere.
        concurrency: most calls in flight to this LM.
        timeout: Seconds that one attempt of an LM call may take. Default: 120, embedded 1800.
        threads: CPU threads of an embedded LM; None takes FOLKMOOT_THREADS or 1.
        context: longest prompt and reply of an embedded LM together, in tokens; None takes 8192, or
            the model's own.
        slots: calls that an embedded LM answers side by side; above 1 its answers do not repeat bit
            for bit.
        profile: how the LM wants to be asked; `answer_form` and `list_options` change single
            settings of it.
        price: USD per prompt token and per completion token, where the price table lacks the model;
            a third price is that of cached prompt tokens.
        sampling: temperature (default 0), max_tokens (default: what the endpoint allows; embedded
            1024), top_p, top_k, seed, stop; OpenAI's reasoning models take a seed alone of these.
            Sent as they are: reasoning_effort, thinking, max_completion_tokens, verbosity,
            service_tier, frequency_penalty, presence_penalty, logit_bias, and extra_body for other
            fields; logprobs=True asks for the LM's own probability of its answers.

    `local/MODEL` runs inside this process: `gemma-3-270m`, `qwen2.5-coder-1.5b` and
    `qwen2.5-coder-0.5b`, a `PATH.gguf`, or `hf:ORG/REPO:FILE.gguf` from the hub
    (`ORG/REPO@REVISION` pins it).

    Raises UserError for an unknown name, a missing key or extra, and an unusable address or
    setting.
    """
    name = name or default_lm()
    if not isinstance(name, str):
        raise UserError(
            f"an LM's name is a text, not a {type(name).__name__}: give one such as {DEFAULT_LM}"
        )
    for key in sampling:
        checked_among("LM setting", key, SETTINGS)
    checked_whole("concurrency", concurrency)
    if timeout is not None and not 0 < timeout < float("inf"):
        raise UserError(f"timeout is {timeout}: give seconds above 0")
    embedded = {"threads": threads, "context": context, "slots": slots}
    _check_embedded(name, embedded)
    check_settings(name, sampling)
    passed = {key: sampling.pop(key) for key in PASSED if sampling.get(key) is not None}
    refused = [key for key in sampling if is_reasoning_model(name) and key not in REASONING_TAKES]
    if refused:
        instead = "leave it out"
        if refused[0] == "max_tokens":
            instead = "give max_completion_tokens"
        raise UserError(f"{name} is a reasoning model and does not accept {refused[0]}: {instead}")
    prices = None if price is None else _prices(name, price)
    provider, _, model = name.partition("/")
    if provider == "replay" and model:
        seat, recorded = EVERY, read_lms(Path(model))
        if EVERY not in recorded:
            seat = next(iter(recorded), EVERY)
        return replayed(Path(model), seat)
    engine = Engine.reaching(
        name,
        profile=lambda own: _profile(profile or own, answer_form, list_options),
        api_base=api_base,
        api_key=api_key,
        timeout=timeout,
        embedded=embedded,
        concurrency=concurrency,
        prices=prices,
        settings=passed,
    )
    limit = LOCAL_MAX_TOKENS if provider == "local" else None
    made = _dspy_lm(name, engine, {"temperature": 0.0, "max_tokens": limit, **sampling})
    # Copies of an agent are sampled at a temperature above 0, unless the user has set one.
    made.temperature_unset = "temperature" not in sampling
    # A saved program only says that there was an address, since the address may be private.
    made.addressed = api_base is not None
    return made


def default_lm() -> str:
    """Return the name of the default LM: FOLKMOOT_LM, else the embedded one."""
    return settings_now().lm or DEFAULT_LM


def lm_given(lm_or_name: object) -> dspy.BaseLM:
    """Return the LM that a user means: an LM itself, the LM of a name, or for None the LM that DSPy
    is configured with, else that of FOLKMOOT_LM.
    """
    chosen = lm_or_name or dspy.settings.lm or settings_now().lm
    if isinstance(chosen, str):
        return lm(chosen)
    return chosen


def check_address(name: str, seat: str, how: str = "") -> None:
    """Raise UserError for a saved LM that had an address of its own, unless OPENAI_BASE_URL says
    where it is. `how` tells the user how to give the address.
    """
    if seat == EVERY:
        who = f"the LM {name} that it was saved with"
        how = how or "--api-base URL, fm.lm(…, api_base=…)"
    else:
        who = f"the LM {name} of the agent {seat!r}"
        how = how or f"lms={{{seat!r}: fm.lm({name!r}, api_base=…)}}, --api-base {seat}=URL"
    current = settings_now()
    if name.startswith("openai/") and current.openai_base_url != current.default_openai_base_url:
        return
    raise UserError(
        f"{who} had an address of its own, which is not saved: give it with {how}, or "
        "OPENAI_BASE_URL"
    )


def lm_for(
    name: str, *, seat: str = EVERY, addressed: bool = False, **settings: Any
) -> dspy.BaseLM:
    """Return the LM of a saved program's agent by its name; `addressed`: it had an address of its
    own. Raises UserError if it cannot be asked without.
    """
    if addressed:
        check_address(name, seat)
    return lm(name, **settings)


def replayed(folder: Path, seat: str) -> dspy.LM:
    """Return an LM that answers from the record of a run in `folder`, as the LM of the agent `seat`
    did (`*`: of all agents without an LM of their own). Raises UserError if the record has no such
    agent.
    """
    recorded = read_lms(folder)
    identity = recorded.get(seat) or recorded.get(EVERY)
    if identity is None:
        raise UserError(
            f"{folder} has no record for the agent {seat!r}: it has {', '.join(recorded)}"
        )
    # The price table is right for the providers themselves; other endpoints' prices are unknown.
    public = f" at {settings_now().default_openai_base_url}", " at litellm"
    prices = None
    if identity["endpoint"].endswith(public):
        prices = price_per_token(identity["name"])
    engine = Engine(
        identity["name"],
        None,
        Profile(**identity["profile"]),
        identity=identity["endpoint"],
        prices=prices,
        store=CallStore(books_of(folder), readonly=True),
        cached=False,
        settings=only(identity["settings"], PASSED),
    )
    sampling = without(identity["settings"], PASSED)
    made = _dspy_lm(identity["name"], engine, sampling)
    made.temperature_unset = sampling.get("temperature") == 0
    made.recorded = folder
    return made


def engine_of(language_model: object) -> Engine | None:
    """Return the folkmoot engine of an LM; None for an LM that was not made by `lm`."""
    engine = getattr(language_model, "engine", None)
    if not isinstance(engine, SyncEngine):
        return None
    return engine.engine


@dataclass(frozen=True)
class ForeignLM:
    """The price and name of an LM that folkmoot did not make, for budgets and forecasts."""

    model: str
    prices: Prices | None
    endpoint: str = "DSPy"
    concurrency: int = 64
    cached: bool = False
    to_price: str = "make it by fm.lm(…, price=…)"

    @property
    def no_price(self) -> str:
        return no_price([self.model])


Billed: TypeAlias = Engine | ForeignLM
"""What says how an LM's calls are counted and priced: its engine, or what is known by its name."""


def billed_as(lm: object) -> Billed:
    """Return what bills the calls of an LM."""
    model = str(getattr(lm, "model", lm))
    return engine_of(lm) or ForeignLM(model, price_per_token(model))


def lm_identity(language_model: dspy.BaseLM) -> LMFields | None:
    """Return how records describe an LM: name, endpoint, profile and settings, never a key; None
    for one that `lm` did not make.
    """
    engine = engine_of(language_model)
    if engine is None:
        return None
    kwargs = without_none(language_model.kwargs)
    return LMFields(
        name=language_model.model,
        endpoint=engine.identity,
        profile=asdict(engine.profile),
        settings=kwargs | engine.settings,
    )


def _prices(name: str, price: Sequence[float | None]) -> Prices:
    """Return the prices that a user gives. Raises UserError unless they are USD per token."""
    flat = Prices._fields.index("steps")  # the fields before it are those that a user may give
    given = price[:flat] if isinstance(price, Prices) else price
    right = 2 <= len(given) <= flat and None not in given[:2]
    if not right or not all(usd is None or 0 <= usd < float("inf") for usd in given):
        raise UserError(
            f"the price of {name} is {price!r}: give USD per prompt token and per completion token"
        )
    if any(usd is not None and usd > MOST_PER_TOKEN for usd in given[:3]):
        raise UserError(
            f"the price of {name} is {price!r} USD for each token: divide USD per million tokens "
            "by 1,000,000"
        )
    return Prices(*price)  # type: ignore[arg-type]


def _check_embedded(name: str, settings: Mapping[str, int | None]) -> None:
    """Raise UserError for a setting of embedded LMs that is wrong, or given to another LM."""
    for key, value in settings.items():
        if value is None:
            continue
        checked_whole(key, value)
        # `threads` may be given to any LM: --threads is for all LMs of a run.
        if key != "threads" and not name.startswith("local/"):
            raise UserError(
                f"{name} does not accept {key}, which is for embedded LMs: leave it out"
            )


def _dspy_lm(name: str, engine: Engine, sampling: dict[str, object]) -> dspy.LM:
    """Return the `dspy.LM` of an engine, with the attributes that agents ask for."""
    takes: tuple[str, ...] = SAMPLING
    if is_reasoning_model(name):
        # They refuse a temperature, and their token limit includes their thoughts.
        takes = REASONING_TAKES
        sampling = only(sampling, takes)
    made = dspy.LM(
        name, engine=SyncEngine(engine), async_engine=engine, cache=False, num_retries=0, **sampling
    )
    made.profile = engine.profile
    made.takes = takes
    made.passed = engine.settings
    # By it, agents ask without DSPy in between (`agents.direct`).
    made.direct = engine
    return made


def thinks(name: str) -> bool:
    """Return whether this LM is known to begin its replies with hidden thoughts, which count as
    tokens.
    """
    return is_reasoning_model(name) or bool(known_model(name).get("supports_reasoning"))


def is_reasoning_model(name: str) -> bool:
    """Return whether this LM is a reasoning model of OpenAI's."""
    # DSPy knows them by name, and gives their token limit another name; a later DSPy knows more.
    return "max_completion_tokens" in dspy.LM(name).kwargs


def _profile(profile: Profile, answer_form: str | None, list_options: bool | None) -> Profile:
    """Return the profile with those of the two settings that are given."""
    if answer_form is not None:
        checked_among("answer form", answer_form, ("label", "text"))
        profile = replace(profile, answer_form=answer_form)  # type: ignore[arg-type]
    if list_options is not None:
        profile = replace(profile, list_options=list_options)
    return profile
