"""A team around Anthropic's own client: an agent uses a tool, and a judge decides. Not a line is
changed.

folkmoot evaluate "cmd:python anthropic_team.py" --data questions.csv --lm openai/gpt-4o-mini
"""

import json
import sys

from anthropic import Anthropic

MODEL = "claude-sonnet-4-5"
TOOL = {
    "name": "look_up",
    "description": "Looks a thing up.",
    "input_schema": {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
    },
}

client = Anthropic()


def with_a_tool(text: str) -> str:
    """The tool loop of the client's documentation."""
    messages = [{"role": "user", "content": text}]
    while True:
        reply = client.messages.create(
            model=MODEL, max_tokens=1024, messages=messages, tools=[TOOL]
        )
        if reply.stop_reason != "tool_use":
            return "".join(block.text for block in reply.content if block.type == "text")
        messages.append({"role": "assistant", "content": reply.content})
        results = [
            {
                "type": "tool_result",
                "tool_use_id": block.id,
                "content": f"Nothing is known about {block.input['input']}.",
            }
            for block in reply.content
            if block.type == "tool_use"
        ]
        messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    question = json.load(sys.stdin)
    options = [f"{label}. {text}" for label, text in (question["choices"] or {}).items()]
    text = "\n".join([question["question"], *options])
    judged = client.messages.create(
        model=MODEL,
        max_tokens=100,
        system="Reply with the answer alone.",
        messages=[{"role": "user", "content": f"{text}\n\nAn opinion:\n{with_a_tool(text)}"}],
    )
    print(json.dumps({"answer": judged.content[0].text}))
