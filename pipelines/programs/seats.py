"""Reads what a user gives for a program: the program, its parameters, and the LMs of its agents,
from a request or from a recorded run. In this file, a seat is an agent's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import dspy
import yaml

from ...modules.agents.adapter import profile_of
from ...modules.base.errors import UserError, did_you_mean
from ...modules.base.keyed import without_none
from ...modules.base.yaml_file import StrictLoader
from ...modules.protocols.program import Program
from ..base.request import AnyLM, Pairs, Request
from ..base.settings import settings as settings_now
from ..lms.named import EMBEDDED, SETTINGS, check_address, default_lm, lm, replayed, settings_of
from ..lms.named import EVERY as EVERY
from ..lms.prices import Prices
from ..lms.store import read_lms

T = TypeVar("T")

_REPLAY = "replay/"
_SETTINGS = (*SETTINGS, *EMBEDDED)
# `AGENT=VALUE`. Before an equals sign, an LM's name has a slash and an address a colon, so neither
# is taken for an agent.
_SEATED = re.compile(r"([A-Za-z_][\w-]*(?:\.[\w-]+)*)=(.+)", re.DOTALL)
_USD = r"\s*\$?(\d+(?:\.\d+)?)\s*"
LEAST_PER_MILLION = 0.001
"""USD; the cheapest LMs that are not free cost more."""
_PRICE = re.compile(rf"{_USD},{_USD}(?:,{_USD})?")


class Unused(UserError):  # noqa: N818
    """An option was given for the agent or LM `name`, which the program does not have."""

    def __init__(self, said: str, name: str) -> None:
        super().__init__(said)
        self.name = name


def program_given(program: object, inputs: Mapping[str, str] | None = None) -> Program:
    """Return the program that a user gives: one of folkmoot's, a spec or folder, any `dspy.Module`,
    or a callable. For the last two, `inputs` maps their fields to the question's.

    Raises UserError for anything else.
    """
    if isinstance(program, str | Path):
        from .resolve import program_of

        program = program_of(program)
    if isinstance(program, Program) and not inputs:
        return program
    if isinstance(program, type):
        instance = f"{program.__name__}()"
        if issubclass(program, dspy.Signature):
            instance = f"dspy.Predict({program.__name__})"
        raise UserError(f"{program.__name__} is a class: give an instance, {instance}")
    if not callable(program):
        raise UserError(
            f"{type(program).__name__} is not a program: give one such as fm.SingleAgent(), a "
            "dspy.Module, a function of a question, a spec such as 'single:cot', or a result's "
            ".program"
        )
    from .build import own_program

    if not isinstance(program, Program):
        return own_program(program, inputs)
    if not program.foreign:
        raise UserError(
            f"inputs are for programs of your own: a {type(program).__name__} knows its fields"
        )
    return own_program(program.as_given, inputs, getattr(program, "spec", None))


class Seating:
    """Makes the LMs of a request, and gives them to the agents of a program.

    Args:
        options: a request with `lm`, `api_base` and, as far as its command has them, the settings
            that all LMs share. Options among its `defaults` were not given for this run, and are
            ignored where they do not apply.
        keyless: for plans, which ask no LM: `openai/…` without a key is not an error.
    """

    def __init__(self, options: Request, *, keyless: bool = False) -> None:
        self.options, self.keyless = options, keyless
        self._made: dict[tuple[object, ...], dspy.BaseLM] = {}

    def _of(self, option: str) -> Any:
        """Return the request's value of an option; None if its command does not have it."""
        return getattr(self.options, option, None)

    def asked(self, option: str) -> Any:
        """Return the values of an option without its defaults: those that the user gave for this
        run.
        """
        values = self._of(option)
        defaults = self.options.defaults.get(option, ((), ""))[0]
        if defaults and isinstance(values, Sequence):
            return [value for value in values if value not in defaults]
        return values

    @cached_property
    def seated(self) -> Mapping[str, str | dspy.BaseLM]:
        """`lm` as agent → LM or its name; `*` stands for every agent. Raises UserError, as the next
        three do.
        """
        return _lms_by_seat(self._of("lm"))

    @cached_property
    def addresses(self) -> dict[str, str]:
        """`api_base` as agent → address."""
        return by_seat(self._of("api_base"), "--api-base")

    @cached_property
    def priced(self) -> dict[str, Prices]:
        """`price` as model → USD per prompt and per completion token."""
        return parse_prices(self._of("price"))

    @cached_property
    def chosen(self) -> dict[str, dict[str, object]]:
        """`lm_set` as agent → settings."""
        return parse_settings(self._of("lm_set"))

    def chosen_for(self, seat: str) -> dict[str, object]:
        """Return the --lm-set settings of an agent, which override those of all agents."""
        settings: dict[str, object] = {}
        # From the most general name to the agent's own, since later settings override.
        for name in (EVERY, *reversed(_names_of(seat))):
            settings |= self.chosen.get(name, {})
        return settings

    def make(
        self, name: object = None, *, seat: str = EVERY, addressed: bool = False, **settings: object
    ) -> dspy.BaseLM | None:
        """Return the LM of this name with the request's options, which `settings` override; an LM
        is returned as it is. Equal LMs are made once. Raises UserError for an option that would not
        change an LM that is made already.

        For an LM of a saved program, `seat` is its agent, and `addressed` says that it had an
        address. Then the result is None if the request has an LM for the agent: by --lm, or by
        `--lm replay/DIR`, which has one for every agent.
        """
        if name is not None and not isinstance(name, str):
            if not any(name is made for made in self._made.values()):
                self._refuse_late(name, seat, settings)
            return name
        if self.replays is not None or (seat != EVERY and bool(_find(self.seated, seat))):
            return None
        model = name or default_lm()
        base = _find(self.addresses, seat) or self.addresses.get(EVERY)
        if addressed and base is None:
            check_address(model, seat)
        if base is None and self.keyless and model.startswith("openai/"):
            base = settings_now().openai_base_url  # an address that is given needs no key
        if not _has_address(model):
            base = None
        answer_form = self._of("answer_form")
        if settings.get("profile"):  # it has an answer form of its own
            answer_form = None
        shared: dict[str, Any] = {
            "api_base": base,
            "temperature": self._of("temperature"),
            "max_tokens": self._of("max_tokens"),
            "answer_form": answer_form,
            "threads": self._of("threads"),
            "concurrency": self._of("concurrency"),
            "timeout": self._of("timeout"),
            **self.chosen_for(seat),
        }
        price = self.priced.get(model)
        if price is not None:
            if not _has_address(model):
                raise UserError(f"{model} costs nothing: drop its --price")
            shared["price"] = price
        chosen = without_none(shared)
        chosen |= settings
        key = (name, *sorted((key, str(value)) for key, value in chosen.items()))
        if key not in self._made:
            self._made[key] = lm(name, **chosen)
        return self._made[key]

    def _refuse_late(self, made: dspy.BaseLM, seat: str, settings: Iterable[str]) -> None:
        """Raise UserError for a setting that would change nothing, since the LM is made already."""
        late = list(settings)
        # Where other LMs are named, a setting of all LMs is for these.
        if not any(isinstance(value, str) for value in self.seated.values()):
            late += self._given()
            if EVERY in self.addresses:
                late.append("api_base")
        if _find(self.addresses, seat):
            late.append("api_base")
        late += self.chosen_for(seat)
        model = str(getattr(made, "model", made))
        if model in self.priced:
            late.append("price")
        if late:
            raise UserError(
                f"{model} is an LM that is made already, which {late[0]} does not change: give it "
                f"where the LM is made, as in fm.lm('{model}', {late[0]}=…)"
            )

    def _given(self) -> list[str]:
        """Return the settings of all LMs that were given for this run."""
        given: list[str] = []
        for name in ("temperature", "max_tokens", "answer_form"):
            if name not in self.options.defaults and self._of(name) is not None:
                given.append(name)
        return given

    @property
    def replays(self) -> Path | None:
        """The recorded run that answers for every agent, if the LM is `replay/DIR`; else None."""
        name = self.seated.get(EVERY)
        if not isinstance(name, str) or not name.startswith(_REPLAY):
            return None
        return Path(name.removeprefix(_REPLAY))

    def seat(self, program: Program) -> tuple[Program, dspy.BaseLM | None]:
        """Give the program's agents the LMs that the request names, without calling any.

        Returns the program (a copy if an agent changes), and the LM of all agents without one of
        their own: that of the request, else DSPy's, else that of FOLKMOOT_LM; None if every agent
        has its own. Raises UserError for an unknown agent and for options that no LM needs.
        """
        names, bases = self.seated, self.addresses
        if "own_roles" in parse_sets(self._of("sets")):  # else the roles may be for other programs
            program.refuse_idle_role()
        # An option that was given for this run must be of use; a default may be for others.
        lms = _lms_by_seat(self.asked("lm"))
        addresses = by_seat(self.asked("api_base"), "--api-base")
        program = program.with_seats([*names, *bases, *self.chosen])
        self.refuse_unknown(program.seats(), "in this program")
        saved = program  # its own LM is used unless one is given for all agents
        if program.own_lm is not None:
            program = program.deepcopy()
            program.own_lm = None
        if self.replays is not None:
            return self._replay(program, self.replays)
        fallback = lms.get(EVERY) or saved.lm_of_its_own() or names.get(EVERY)
        fallback = fallback or dspy.settings.lm or settings_now().lm
        used = [getattr(wanted, "model", wanted) for wanted in (fallback, *names.values())]
        used += _models(program)
        if EVERY in addresses and not any(map(_has_address, used)):
            raise UserError(
                "--api-base is for an LM behind an address: name it, such as --lm openai/MODEL"
            )
        program = self._with_own_lms(program, fallback)
        rest = None
        own_module = program.foreign and EVERY not in (*lms, *bases)
        if own_module and dspy.settings.lm:
            rest = self.make(dspy.settings.lm)  # its module has set it
        elif (
            isinstance(names.get(EVERY), dspy.BaseLM)
            or any(seat.predict.lm is None for seat in program.seats().values())
            or (not program.seats() and EVERY in lms)
            or program.metered_parts
        ):
            rest = fallback and self.make(fallback)
        models = set(_models(program))
        if isinstance(rest, dspy.BaseLM):
            models.add(rest.model)
        self.refuse_idle_prices(models)
        folder = getattr(rest, "recorded", None)
        if folder is not None and read_lms(folder).keys() != {EVERY}:
            # Several LMs answered in the run that it replays.
            program = program.with_seats(read_lms(folder)).deepcopy()
            _seat_as_recorded(program, folder)
        return program, rest

    @property
    def named(self) -> list[str]:
        """The agents for which an LM, an address or a setting was given for this run."""
        addresses = by_seat(self.asked("api_base"), "--api-base")
        settings = parse_settings(self.asked("lm_set"))
        given = [*_lms_by_seat(self.asked("lm")), *addresses, *settings]
        return [name for name in given if name != EVERY]

    def refuse_unknown(self, agents: Collection[str], where: str) -> None:
        """Raise Unused if something was given for an agent that is none of these; `where` says in
        words which these are.
        """
        for name in self.named:
            if not any(name in _names_of(agent) for agent in agents):
                known = ", ".join(agents) or "none"
                raise Unused(f"there is no agent {name!r} {where}: the agents are {known}", name)

    def refuse_idle_prices(self, models: Collection[str]) -> None:
        """Raise Unused if a price was given for an LM that is none of these."""
        for name in parse_prices(self.asked("price")):
            if name not in models:
                raise Unused(
                    f"--price names {name!r}, which no agent asks: the LMs are {', '.join(models)}",
                    name,
                )

    def _with_own_lms(self, program: Program, fallback: dspy.BaseLM | str) -> Program:
        """Return the program with the LMs of agents that have a name, an address or settings of
        their own.
        """
        names, bases, changed = self.seated, self.addresses, list[str]()
        for name in program.seats():
            given = (_find(names, name), _find(bases, name), _find(self.chosen, name))
            if given != (None, None, None):
                changed.append(name)
        if changed:
            program = program.deepcopy()
        for name in changed:
            predict, wanted = program.seats()[name].predict, _find(names, name)
            model, kept = wanted or fallback, dict[str, object]()
            if wanted is None and predict.lm is not None:
                model, kept = predict.lm.model, _kept(predict.lm)
            predict.lm = self._make_for(name, model, _find(bases, name), kept)
        return program

    def _make_for(
        self, seat: str, name: dspy.BaseLM | str, base: str | None, kept: Mapping[str, Any]
    ) -> dspy.BaseLM:
        """Return the LM of one agent, at an address of its own and with settings that it keeps, if
        any. Raises UserError for an address of an LM without one.
        """
        if isinstance(name, str) and name.startswith(_REPLAY):
            return replayed(Path(name.removeprefix(_REPLAY)), seat)
        kept = {**kept, **self.chosen_for(seat)}
        if base is None:
            return self.make(name, **kept)
        if not _has_address(name):
            raise UserError(f"{name} for the agent {seat!r} has no address: drop its --api-base")
        return self.make(name, api_base=base, **kept)

    def _replay(self, program: Program, folder: Path) -> tuple[Program, dspy.BaseLM | None]:
        """As `seat`, with the LMs of a recorded run. Raises UserError for options on LMs."""
        given = self._given()
        given += [name for name in ("api_base", "price", "lm_set") if self.asked(name)]
        options = ["--" + name.replace("_", "-") for name in given]
        if len(_lms_by_seat(self.asked("lm"))) > 1:
            options.append("the second --lm")
        if options:
            raise UserError(
                f"{_REPLAY}{folder} answers as recorded for every agent: drop {options[0]}"
            )
        program = program.with_seats(read_lms(folder)).deepcopy()
        for seat in program.seats().values():
            seat.predict.lm = None
        return program, _seat_as_recorded(program, folder)


def _seat_as_recorded(program: Program, folder: Path) -> dspy.BaseLM | None:
    """Give agents without an LM theirs from a recorded run; returns the LM of all others."""
    recorded = read_lms(folder)
    if program.metered_parts:
        program.assign({name: replayed(folder, name) for name in recorded.keys() - {EVERY}})
        if EVERY not in recorded:
            return None
        return replayed(folder, EVERY)
    without = {name: seat for name, seat in program.seats().items() if seat.predict.lm is None}
    for name in without.keys() & recorded.keys():
        without[name].predict.lm = replayed(folder, name)
    others = [name for name in without if name not in recorded]
    if not others:
        return None
    return replayed(folder, others[0])


def _lms_by_seat(lms: AnyLM | None) -> Mapping[str, str | dspy.BaseLM]:
    """Return the LMs of a request as agent → LM or its name; `*` stands for every agent. Raises
    UserError for a list without agents.
    """
    if lms is None or isinstance(lms, str | Sequence):
        unseated = isinstance(lms, list | tuple) and not any("=" in str(name) for name in lms)
        if unseated and len(lms or ()) > 1:
            raise UserError(
                "lm is a list of LMs without their agents: give one LM, or agent → LM, such as "
                "{'judge': 'openai/gpt-4o-mini'} (--lm judge=openai/gpt-4o-mini)"
            )
        return by_seat(lms, "--lm")
    if isinstance(lms, Mapping):
        return dict(lms)
    return {EVERY: lms}


def seat_in(value: str) -> tuple[str, str]:
    """Return the agent and the value in `[AGENT=]VALUE`; `*` stands for every agent."""
    match = _SEATED.fullmatch(value)
    if match is None:
        return EVERY, value
    return match[1], match[2]


def by_seat(values: str | Sequence[str] | Mapping[str, str] | None, option: str) -> dict[str, str]:
    """Return `[AGENT=]VALUE` options as agent → value, with `*` for every agent; a mapping is one
    already. Raises UserError for an agent with two values.
    """
    if isinstance(values, Mapping):
        return dict(values)
    if isinstance(values, str):
        values = [values]
    seated: dict[str, str] = {}
    for value in values or ():
        if not isinstance(value, str):
            raise UserError(
                f"{option.removeprefix('--')} is a list that holds a {type(value).__name__}: "
                "give one LM, or agent → LM, such as {'judge': fm.lm('…')}"
            )
        seat, rest = seat_in(value)
        if seated.setdefault(seat, rest) != rest:
            where = "every agent" if seat == EVERY else f"the agent {seat!r}"
            raise UserError(
                f"{option} is given twice for {where}: keep one of {seated[seat]!r} and {rest!r}"
            )
    return seated


def parse_sets(pairs: Pairs) -> dict[str, object]:
    """Return the constructor parameters in `KEY=VALUE` pairs, whose values are YAML (`2`, `true`,
    `[a, b]`, `text`); a mapping is returned as it is. Raises UserError.
    """
    if isinstance(pairs, Mapping):
        return dict(pairs)
    parameters: dict[str, object] = {}
    for pair in pairs or ():
        key, equals, value = map(str.strip, pair.partition("="))
        if not equals or not key:
            raise UserError(
                f"--set {pair!r} is not a KEY=VALUE pair: write for example --set max_rounds=2"
            )
        if key in parameters:
            raise UserError(f"{key} is given twice, by --set or an option of its name: keep one")
        try:
            parameters[key] = yaml.load(value, Loader=StrictLoader)
        except yaml.YAMLError:
            raise UserError(
                f"--set {pair!r}: the value is not valid YAML; quote it as {key}='\"…\"'"
            ) from None
    return parameters


def parse_settings(values: Pairs) -> dict[str, dict[str, object]]:
    """Return `[AGENT.]KEY=VALUE` options as agent → settings; a value is read as JSON, else as a
    word. Raises UserError.
    """
    seated: dict[str, dict[str, object]] = {}
    if isinstance(values, Mapping):
        values = [f"{place}={json.dumps(value)}" for place, value in values.items()]
    for value in values or ():
        place, equals, text = value.partition("=")
        seat, _, key = place.strip().rpartition(".")
        settings = seated.setdefault(seat or EVERY, {})
        if equals and key not in _SETTINGS:
            raise UserError(
                f"--lm-set {value!r} names no setting of an LM{did_you_mean(key, _SETTINGS)}: the "
                f"settings are {', '.join(_SETTINGS)}"
            )
        if not equals or key in settings:
            raise UserError(
                f"--lm-set {value!r} is not [AGENT.]KEY=VALUE, or its setting is given twice: "
                "write for example reasoning_effort=low"
            )
        try:
            settings[key] = json.loads(text)
        except (ValueError, RecursionError):
            settings[key] = text.strip()
    return seated


def parse_prices(values: Pairs) -> dict[str, Prices]:
    """Return `MODEL=IN,OUT[,CACHED]` options, in USD per million tokens, as model → prices per
    token. Without a third price, cached prompt tokens cost as much as others. Raises UserError.
    """
    prices: dict[str, Prices] = {}
    if isinstance(values, Mapping):
        values = [f"{model}={_prices_text(amounts)}" for model, amounts in values.items()]
    for value in values or ():
        model, _, amounts = map(str.strip, str(value).rpartition("="))
        match = _PRICE.fullmatch(amounts)
        if not model or match is None or model in prices:
            raise UserError(
                f"--price {value!r} is not MODEL=IN,OUT in USD per million tokens, or its model "
                "is given twice: write for example openai/my-model=0.15,0.60, or 0.15,0.60,0.075 "
                "with cached prompts"
            )
        if any(0 < float(price) < LEAST_PER_MILLION for price in match.groups() if price):
            raise UserError(
                f"--price {value!r} is in USD per million tokens: multiply USD per token by "
                "1,000,000"
            )
        prices[model] = Prices(
            *(float(price) / 1e6 for price in match.groups() if price is not None)  # type: ignore[arg-type]
        )
    return prices


def _prices_text(amounts: object) -> object:
    """Return prices as they are written on the command line."""
    if isinstance(amounts, list | tuple):
        return ",".join(map(str, amounts))
    return amounts


def _kept(language_model: dspy.BaseLM) -> dict[str, object]:
    """Return the settings and the profile of an LM that is made again at another address."""
    kept = settings_of(language_model)
    if profile_of(language_model) is not None:
        kept["profile"] = language_model.profile
    return kept


def _names_of(seat: str) -> tuple[str, ...]:
    """Return the names that mean an agent, its own first: for NAME.INDEX.STEP also NAME.INDEX and
    NAME.
    """
    parts = seat.split(".")
    return tuple(".".join(parts[:count]) for count in range(len(parts), 0, -1))


def _find(values: Mapping[str, T], seat: str) -> T | None:
    """Return the value for an agent, by the most specific name that means it; None without one."""
    return next((values[name] for name in _names_of(seat) if name in values), None)


def _models(program: Program) -> list[str]:
    """Return the names of the agents' own LMs."""
    return [
        seat.predict.lm.model for seat in program.seats().values() if seat.predict.lm is not None
    ]


def _has_address(name: object) -> bool:
    """Return whether a name is that of an LM that is reached at an address."""
    return isinstance(name, str) and not name.startswith(("local/", _REPLAY))
