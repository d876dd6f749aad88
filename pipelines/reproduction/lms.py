"""Which LM stands in for which model of a paper: `--lm NAME` for all, `--lm MODEL=NAME` for one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from ...modules.base.errors import UserError, did_you_mean
from ..base.request import LMs, SharedByLMs, pairs_text, split_items
from ..programs.seats import Seating
from .presets import EVERY, Preset, models
from .request import ReproduceRequest


@dataclass
class PaperLMs:
    """The LMs of a reproduction: options whose `lm` and `api_base` are by a paper's models, not by
    seats.
    """

    request: ReproduceRequest
    keyless: bool = False

    def __post_init__(self) -> None:
        self._names = by_model(_lm_options(self.request.lm), "--lm")
        self._bases = by_model(split_items(self.request.api_base), "--api-base")

    def name(self, model: str) -> str:
        """The LM that a paper's model is asked as. Raises UserError where nothing stands in
        for it.
        """
        name = self._names.get(model) or self._names.get(EVERY) or models()[model].name
        if name is None:
            raise UserError(
                f"{model} is offered by nobody: name a stand-in with --lm {model}=NAME, or --lm "
                f"NAME"
            )
        return name

    def seats(self, preset: Preset) -> dict[str, str]:
        """Seat → name of its LM; `*` for all others."""
        return {seat: self.name(model) for seat, model in preset.models.items()}

    def options(self, preset: Preset) -> Seating:
        """What `evaluate` would be asked about the LMs of this preset."""
        seats, addresses = self.seats(preset), list[str]()
        for seat, model in preset.models.items():
            base = self._bases.get(model) or self._bases.get(EVERY)
            if base is not None and not seats[seat].startswith(("local/", "replay/")):
                addresses.append(_option(seat, base))
        shared = {
            one.name: getattr(self.request, one.name) for one in fields(SharedByLMs) if one.init
        }
        names = set(seats.values())
        prices = pairs_text(self.request.price)
        shared["price"] = [price for price in prices if price.rpartition("=")[0] in names]
        lms = [_option(seat, name) for seat, name in seats.items()]
        return Seating(LMs(lm=lms, api_base=addresses, **shared), keyless=self.keyless)

    def check(self, presets: Iterable[Preset]) -> None:
        """Raises UserError for options about models and LMs that none of the presets has."""
        models = {model for preset in presets for model in preset.models.values()}
        names = {self.name(model) for model in models}
        priced = [price.rpartition("=")[0] for price in pairs_text(self.request.price)]
        for option, values, allowed in (
            ("--lm", self._names, models | {EVERY}),
            ("--api-base", self._bases, models | {EVERY}),
            ("--price", priced, names),
        ):
            for value in values:
                if value not in allowed:
                    raise UserError(
                        f"{option} names {value}, which no row asked for has: there are "
                        f"{', '.join(sorted(allowed - {EVERY}))}"
                    )

    def notes(self, presets: Sequence[Preset]) -> list[str]:
        """Notes on the LMs that a reader of the figures needs: stand-ins, and members of an
        ensemble that are copies.
        """
        used = dict.fromkeys(model for preset in presets for model in preset.models.values())
        stand_ins = [
            f"{model} by {self.name(model)}"
            for model in used
            if not models()[model].same or models()[model].name != self.name(model)
        ]
        notes = [f"Not the paper's model: {', '.join(stand_ins)}."] if stand_ins else []
        for preset in presets:
            members = preset.program.get("members")
            if members and len(set(self.seats(preset).values())) < len(members):
                notes.append(
                    "Members of an ensemble with the same LM and prompt are copies: at "
                    "temperature 0 they answer alike, and their vote adds nothing."
                )
                break
        return notes


def _lm_options(lms: str | Sequence[str] | Mapping[str, str] | None) -> list[str]:
    """The LMs of a request as the command line has them: `[MODEL=]NAME`."""
    if isinstance(lms, Mapping):
        return [name if model == EVERY else f"{model}={name}" for model, name in lms.items()]
    return [lms] if isinstance(lms, str) else list(lms or ())


def by_model(values: Sequence[str], option: str) -> dict[str, str]:
    """`[MODEL=]VALUE` options as the paper's model → value, `*` for all. Raises UserError."""
    spelled = {name.casefold(): name for name in models()}
    chosen: dict[str, str] = {}
    for value in values:
        left, equals, rest = value.partition("=")
        model = EVERY
        # An LM's name has a slash before any equals sign, an address a colon.
        if equals and "/" not in left and ":" not in left:
            if left.casefold() not in spelled:
                meant = did_you_mean(left.casefold(), spelled)
                raise UserError(
                    f"{option} {value!r}: no paper has a model {left!r}{meant}; there are "
                    f"{', '.join(models())}"
                )
            model, value = spelled[left.casefold()], rest
        if model in chosen:
            where = "all models" if model == EVERY else model
            raise UserError(
                f"{option} is given twice for {where}: keep one of {chosen[model]!r} and {value!r}"
            )
        chosen[model] = value
    return chosen


def _option(seat: str, value: str) -> str:
    return value if seat == EVERY else f"{seat}={value}"
