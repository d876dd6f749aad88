"""A little crew without any framework: asks twice through the meter and prints the second reply."""

import json
import os
import socket
import sys


def ask(text, path="/chat/completions", **fields):
    """What an LM says. No client of HTTP is imported: that takes longer than all the rest."""
    body = {"model": "theirs", "messages": [{"role": "user", "content": text}], **fields}
    sent = json.dumps(body).encode()
    host, _, base = os.environ["OPENAI_BASE_URL"].removeprefix("http://").partition("/")
    name, port = host.split(":")
    head = (
        f"POST /{base}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        f"Authorization: Bearer {os.environ['OPENAI_API_KEY']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
    )
    with socket.create_connection((name, int(port))) as meter:
        meter.sendall(head.encode() + sent)
        with meter.makefile("rb") as stream:
            status, _, reply = stream.read().partition(b"\r\n\r\n")
    if b" 200 " not in status.partition(b"\r\n")[0]:
        sys.exit(status.decode())
    return json.loads(reply)["choices"][0]["message"]["content"]


if __name__ == "__main__":
    question = json.load(sys.stdin)
    first = ask(f"{question['id']}: {question['question']}")
    second = ask(f"{question['id']}: {question['question']}")
    print("thinking aloud", first)
    print(json.dumps({"answer": second}))
