"""A little crew without any framework: asks twice through the meter and prints the second reply."""

import json
import os
import sys
import urllib.request


def ask(text, path="/chat/completions", **fields):
    body = {"model": "theirs", "messages": [{"role": "user", "content": text}], **fields}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + path,
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
    )
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]


if __name__ == "__main__":
    question = json.load(sys.stdin)
    first = ask(f"{question['id']}: {question['question']}")
    second = ask(f"{question['id']}: {question['question']}")
    print("thinking aloud", first)
    print(json.dumps({"answer": second}))
