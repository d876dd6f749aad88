"""An OpenAI Agents SDK team: a judge asks two agents as tools. Not a line is changed.

folkmoot evaluate "cmd:python agents_team.py" --data questions.csv --lm openai/gpt-4o-mini
"""

import asyncio
import json
import sys

from agents import Agent, Runner

intuitive = Agent(
    name="intuitive",
    instructions="Give the first answer that comes to your mind.",
    model="gpt-4o-mini",
)
careful = Agent(
    name="careful",
    instructions="Think step by step, then answer.",
    model="gpt-4o-mini",
)
judge = Agent(
    name="judge",
    instructions="Ask both of your colleagues, then reply with the answer alone.",
    model="gpt-4o-mini",
    tools=[
        intuitive.as_tool("ask_intuitive", "The first answer that comes to mind."),
        careful.as_tool("ask_careful", "A careful answer."),
    ],
)

if __name__ == "__main__":
    question = json.load(sys.stdin)
    options = [f"{label}. {text}" for label, text in (question["choices"] or {}).items()]
    result = asyncio.run(Runner.run(judge, "\n".join([question["question"], *options])))
    print(json.dumps({"answer": result.final_output}))
