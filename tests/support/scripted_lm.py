"""An LM that a function answers for, in this process: for contests by the thousand."""

from collections.abc import Callable, Mapping
from typing import Any

import dspy

from folkmoot.modules.agents.profile import DEFAULT_PROFILE, Profile
from folkmoot.pipelines.lms.endpoint import Reply
from folkmoot.pipelines.lms.engine import Engine, SyncEngine
from folkmoot.pipelines.lms.prices import Prices

PRICES = Prices(1e-6, 4e-6)


class ScriptedEndpoint:
    """Gives what a function says of a request's body; counts a token for four characters."""

    timeout = 60.0
    quiet_until = 0.0

    def __init__(self, name: str, reply: Callable[[dict[str, Any]], str]) -> None:
        self.name = self.address = name
        self.reply, self.calls = reply, 0

    async def send(self, payload: Mapping[str, Any]) -> Reply:
        self.calls += 1
        text = self.reply(dict(payload))
        prompt = sum(len(message["content"]) for message in payload["messages"])
        return Reply(text, "stop", prompt // 4 + 1, len(text) // 4 + 1)

    async def aclose(self) -> None:
        """There is nothing to close."""


def scripted_lm(
    reply: Callable[[dict[str, Any]], str],
    name: str = "openai/scripted",
    *,
    prices: Prices | None = PRICES,
    concurrency: int = 64,
    profile: Profile = DEFAULT_PROFILE,
) -> dspy.LM:
    """An LM with these prices whose replies `reply` gives; `lm.endpoint.calls` counts its calls."""
    endpoint = ScriptedEndpoint(f"{name} in this process", reply)
    known: Any = {"concurrency": concurrency, "prices": prices, "cached": False}
    engine = Engine(name, endpoint, profile, identity=f"{name} at {endpoint.name}", **known)
    lm = dspy.LM(name, engine=SyncEngine(engine), async_engine=engine, cache=False, temperature=0.0)
    lm.profile, lm.direct, lm.endpoint = engine.profile, engine, endpoint
    lm.passed, lm.temperature_unset, lm.addressed = {}, True, True
    return lm
