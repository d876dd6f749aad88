"""One engine's turn at the same job: two agents a question, one after the other, over an endpoint
of set latency.

Run as `python benchmarks/peers.py NAME URL QUESTIONS`; prints wall and CPU seconds and calls as
JSON. Each engine runs in a process of its own, so that neither imports nor threads of one weigh on
another.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

IN_FLIGHT = 64
START = [0]  # the first question's number: no question is asked twice, so no cache helps anybody
AGENTS = 2
CHOICES = {"A": "bank", "B": "library", "C": "department store", "D": "mall", "E": "new york"}
OPTIONS = "\n".join(f"{label}) {text}" for label, text in CHOICES.items())
ROLE = "You reason in strict order. Weigh every option and answer with the label of the best one."


def question(number: int) -> str:
    return f"Where would you find number {START[0] + number}?"


def prompt(number: int, said: list[str]) -> list[dict[str, str]]:
    text = "\n\n".join([question(number), OPTIONS, *said, ROLE])
    return [{"role": "user", "content": text}]


async def in_turn(questions: int, ask: Callable[[int, list[str]], Awaitable[str]]) -> None:
    """64 questions in flight, the agents of each one after the other."""
    waiting = iter(range(questions))

    async def work() -> None:
        for number in waiting:
            said: list[str] = []
            for _ in range(AGENTS):
                said.append(await ask(number, said))

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


def bare(url: str, questions: int) -> None:
    import aiohttp

    async def run() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def ask(number: int, said: list[str]) -> str:
                body = {"model": "m", "messages": prompt(number, said)}
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    return str((await response.json())["choices"][0]["message"]["content"])

            await in_turn(questions, ask)

    asyncio.run(run())


def folkmoot(
    url: str, questions: int, *, tracking: bool = False, out: str | None = None, **more: Any
) -> Any:
    import folkmoot as fm

    data = [
        fm.Question(id=str(number), question=question(number), choices=CHOICES, answer="A")
        for number in range(questions)
    ]
    program = fm.Deliberation(["intuitive", "reasoner"], tie_break="majority")
    lm = fm.lm("openai/m", api_base=url, concurrency=IN_FLIGHT)
    return fm.evaluate(
        program, data, lm=lm, concurrency=IN_FLIGHT, tracking=tracking, out=out, **more
    )


def until_rows(url: str, questions: int, **more: Any) -> tuple[Any, dict[str, float]]:
    """A tracked run, the seconds until its last row, and from there until the store has it."""
    began, out, before = time.time(), f"tracked-{questions}", cpu()
    used: list[float] = []

    def note(state: Any) -> None:
        if state.done == state.total:
            used.append(cpu() - before)

    result = folkmoot(url, questions, tracking=True, out=out, progress=note, **more)
    answered = (result.folder / "results.jsonl").stat().st_mtime
    took = {"wall": answered - began, "after": time.time() - answered}
    return result, took | {"cpu": used[0], "cpu_in_all": cpu() - before}


def folkmoot_tracked(url: str, questions: int) -> Callable[[], dict[str, float]]:
    _, took = until_rows(url, questions)
    return lambda: took


def folkmoot_traced(url: str, questions: int) -> Callable[[], dict[str, float]]:
    """Every question traced; gives what counts the traces."""
    result, took = until_rows(url, questions, traces=1.0)

    def arrived() -> dict[str, float]:
        from folkmoot.pipelines.tracking.store import open_client

        run = open_client().get_run(
            json.loads((result.folder / "run.json").read_text())["mlflow_run_id"]
        )
        count, token = 0, None
        while True:
            page = open_client().search_traces(
                locations=[run.info.experiment_id],
                run_id=run.info.run_id,
                max_results=500,
                page_token=token,
                include_spans=False,
            )
            count, token = count + len(page), page.token
            if not token:
                return {**took, "traces": count}

    return arrived


def dspy_evaluate(url: str, questions: int) -> None:
    import dspy

    class Turn(dspy.Signature):
        """Weigh every option and answer with the label of the best one."""

        question: str = dspy.InputField()
        options: str = dspy.InputField()
        discussion: str = dspy.InputField()
        argument: str = dspy.OutputField()
        answer: str = dspy.OutputField()

    class Two(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = dspy.Predict(Turn), dspy.Predict(Turn)

        def forward(self, question: str) -> Any:
            one = self.first(question=question, options=OPTIONS, discussion="")
            return self.second(question=question, options=OPTIONS, discussion=one.argument)

    dspy.configure(lm=dspy.LM("openai/m", api_base=url, api_key="none", cache=False))
    data = [
        dspy.Example(question=question(n), answer="A").with_inputs("question")
        for n in range(questions)
    ]
    judge = dspy.Evaluate(
        devset=data,
        metric=lambda a, b, _=None: a.answer == b.answer,
        num_threads=IN_FLIGHT,
        display_progress=False,
    )
    judge(Two())


def litellm_acompletion(url: str, questions: int) -> None:
    import litellm

    async def ask(number: int, said: list[str]) -> str:
        reply = await litellm.acompletion(
            model="openai/m", api_base=url, api_key="none", messages=prompt(number, said)
        )
        return str(reply.choices[0].message.content)

    asyncio.run(in_turn(questions, ask))


def langgraph_two_agents(url: str, questions: int) -> None:
    import httpx
    from langchain_openai import ChatOpenAI
    from langgraph.graph import END, START, StateGraph
    from pydantic import SecretStr
    from typing_extensions import TypedDict

    class State(TypedDict):
        number: int
        said: list[str]

    # LangChain would keep its own client for the next event loop, in which it fails.
    client = httpx.AsyncClient()
    model = ChatOpenAI(
        model="m",
        base_url=url,
        api_key=SecretStr("none"),
        max_retries=2,
        http_async_client=client,
    )

    async def agent(state: State) -> dict[str, Any]:
        reply = await model.ainvoke(
            [("user", prompt(state["number"], state["said"])[0]["content"])]
        )
        return {"said": [*state["said"], str(reply.content)]}

    builder = StateGraph(State)
    builder.add_node("intuitive", agent)
    builder.add_node("reasoner", agent)
    builder.add_edge(START, "intuitive")
    builder.add_edge("intuitive", "reasoner")
    builder.add_edge("reasoner", END)
    graph = builder.compile()

    async def run() -> None:
        waiting = iter(range(questions))

        async def work() -> None:
            for number in waiting:
                await graph.ainvoke({"number": number, "said": []})

        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))

    asyncio.run(run())


def inspect_eval(url: str, questions: int) -> None:
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import get_model
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate, user_message

    data = MemoryDataset(
        [Sample(input=prompt(n, [])[0]["content"], target="A") for n in range(questions)]
    )
    task = Task(
        dataset=data, solver=[generate(), user_message(ROLE), generate()], scorer=includes()
    )
    model = get_model("openai/m", base_url=url, api_key="none", responses_api=False)
    with tempfile.TemporaryDirectory() as logs:
        eval(
            task,
            model=model,
            max_connections=IN_FLIGHT,
            max_samples=IN_FLIGHT,
            max_tasks=1,
            display="none",
            log_dir=logs,
        )


ENGINES: dict[str, Callable[[str, int], Any]] = {
    "bare": bare,
    "folkmoot": folkmoot,
    "folkmoot, tracked": folkmoot_tracked,
    "folkmoot, traced": folkmoot_traced,
    "dspy.Evaluate, 64 threads": dspy_evaluate,
    "LiteLLM acompletion": litellm_acompletion,
    "LangGraph, two agents": langgraph_two_agents,
    "inspect_ai": inspect_eval,
}


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    name, url, questions = sys.argv[1], sys.argv[2], int(sys.argv[3])
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("OPENAI_API_KEY", "none")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        os.environ["FOLKMOOT_CACHE"] = folder
        run = ENGINES[name]
        first = run(url, IN_FLIGHT)  # imports and first connections are not what is measured
        if callable(first):
            first()
        START[0] = IN_FLIGHT
        began, before = time.perf_counter(), cpu()
        more = run(url, questions)
        measured = {
            "wall": time.perf_counter() - began,
            "cpu": cpu() - before,
            "calls": AGENTS * questions,
        }
        measured |= more() if callable(more) else {}
        os.chdir("/")
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
