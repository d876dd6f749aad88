"""An agent-framework team: an agent looks the thing up, and a judge decides. Not a line is changed.

folkmoot evaluate "cmd:python agent_framework_team.py" --data questions.csv --lm openai/gpt-4o-mini
"""

import asyncio
import json
import sys

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient


def look_up(input: str) -> str:
    """Look a thing up."""
    return f"Nothing is known about {input}."


async def answer(text: str) -> str:
    client = OpenAIChatClient(model="gpt-4o-mini")
    careful = Agent(client, "Look it up, think step by step, then answer.", tools=[look_up])
    judge = Agent(client, "Reply with the answer alone.")
    opinion = await careful.run(text)
    return (await judge.run(f"{text}\n\nAn opinion:\n{opinion.text}")).text


if __name__ == "__main__":
    question = json.load(sys.stdin)
    options = [f"{label}. {text}" for label, text in (question["choices"] or {}).items()]
    said = asyncio.run(answer("\n".join([question["question"], *options])))
    print(json.dumps({"answer": said}))
