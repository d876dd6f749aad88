"""A team around OpenAI's own client, as a function: the line with `endpoint` is the changed one.

folkmoot evaluate openai_team:team --data questions.csv --lm openai/gpt-4o-mini
"""

import json
import sys

from openai import OpenAI


def team(question, endpoint=None):
    """The answer to one question, with the folkmoot meter's endpoint or OpenAI's own address."""
    place = endpoint and {"base_url": endpoint.base_url, "api_key": endpoint.api_key}
    client = OpenAI(**(place or {}))

    def ask(role, text):
        messages = [{"role": "system", "content": role}, {"role": "user", "content": text}]
        reply = client.chat.completions.create(model="gpt-4o-mini", messages=messages)
        return reply.choices[0].message.content

    options = [f"{label}. {text}" for label, text in (question["choices"] or {}).items()]
    text = "\n".join([question["question"], *options])
    first = ask("Give the first answer that comes to your mind.", text)
    second = ask("Think step by step, then answer.", text)
    opinions = f"{text}\n\nTwo opinions:\n{first}\n\n{second}"
    return ask("Reply with the answer alone.", opinions)


if __name__ == "__main__":
    print(json.dumps({"answer": team(json.load(sys.stdin))}))
