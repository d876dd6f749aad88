"""A pydantic-ai team: an agent looks the thing up, and a judge decides. Not a line is changed.

folkmoot evaluate "cmd:python pydantic_ai_team.py" --data questions.csv --lm openai/gpt-4o-mini
"""

import json
import sys

from pydantic_ai import Agent

careful = Agent("openai:gpt-4o-mini", instructions="Look it up, think, then answer.")
judge = Agent("openai:gpt-4o-mini", instructions="Reply with the answer alone.")


@careful.tool_plain
def look_up(input: str) -> str:
    """Look a thing up."""
    return f"Nothing is known about {input}."


if __name__ == "__main__":
    question = json.load(sys.stdin)
    options = [f"{label}. {text}" for label, text in (question["choices"] or {}).items()]
    text = "\n".join([question["question"], *options])
    opinion = careful.run_sync(text).output
    result = judge.run_sync(f"{text}\n\nAn opinion:\n{opinion}")
    print(json.dumps({"answer": result.output}))
