"""Improve one agent's prompts on sample questions, save them, and see on held-out questions if they
help.

No key needed: everything runs in this process on the embedded LM (Gemma 3 270M), in about a minute.
"""

from __future__ import annotations

import argparse
import sys

import folkmoot as fm

OUT = "runs/improve"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=16, help="held-out questions, at most 120")
    parser.add_argument("--lm", default="local/gemma-3-270m", help="such as openai/gpt-4o-mini")
    parser.add_argument("--api-base", help="address of an OpenAI-compatible endpoint, up to /v1")
    options = parser.parse_args()

    lm = fm.lm(options.lm, api_base=options.api_base)
    train = fm.load("sample-choice", split="train", limit=options.limit)
    held_out = fm.load("sample-choice", split="test", limit=options.limit)
    out = f"{OUT}/{options.lm}-{options.limit}-questions"
    agent = fm.SingleAgent("simple")

    # The optimizer sees `train` alone; before and after are compared on `held_out`.
    improved = fm.compile(agent, train, held_out, optimizer="bootstrap_rs", lm=lm, out=out)
    found = improved.compilation
    print(f"optimizer: {found.calls_made} calls, the best candidate is {found.winner}")
    print(f"verdict: {found.verdict}")

    # A saved program is a folder of JSON, without keys and addresses.
    improved.save(f"{out}/saved")
    again = fm.load_program(f"{out}/saved")
    before = fm.evaluate(agent, held_out, lm=lm, out=f"{out}/evaluated-before")
    after = fm.evaluate(again, held_out, lm=lm, out=f"{out}/evaluated-after")
    print(f"before: {before}")
    print(f"after:  {after}")
    (pair,) = fm.compare(before, after, names=["before", "after"])
    print(pair.verdict)
    print(
        f"prompts: {out}/prompts.md; ask it: folkmoot ask {out}/saved QUESTION --choice A "
        f"--choice B"
    )


if __name__ == "__main__":
    try:
        main()
    except fm.UserError as problem:
        sys.exit(f"folkmoot: {problem}")
    except KeyboardInterrupt:
        sys.exit("stopped; what is finished is kept: run it again to go on")
