"""Find out how long two agents should talk and who should settle it: a small study, with a report
at the end.

No key needed: everything runs in this process on the embedded LM (Gemma 3 270M), in about a minute.
"""

from __future__ import annotations

import argparse
import sys

import folkmoot as fm

OUT = "runs/tune"
SPACE = {
    "program": "deliberation",
    "roles": [["intuitive", "reasoner"]],
    "max_rounds": {"from": 1, "to": 2},
    "tie_break": ["judge", "strongest"],
    "sampling": {"temperature": None},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--limit", type=int, default=10, help="for the trials, and as many held out"
    )
    parser.add_argument("--lm", default="local/gemma-3-270m", help="such as openai/gpt-4o-mini")
    parser.add_argument("--api-base", help="address of an OpenAI-compatible endpoint, up to /v1")
    options = parser.parse_args()

    lm = fm.lm(options.lm, api_base=options.api_base)
    train = fm.load("sample-choice", split="train", limit=options.limit)
    held_out = fm.load("sample-choice", split="test", limit=options.limit)
    out = f"{OUT}/{options.lm}-{options.limit}-questions"

    # Calls are shared: a trial asks only what no other trial has asked.
    study = fm.tune(SPACE, train, held_out, lm=lm, trials=4, sampler="grid", out=out)
    found = {str(trial.setting): trial.value("accuracy") for trial in study.trials}
    for setting, score in found.items():
        print(f"{score:.0%}  {setting}")
    print(f"verdict: {study.report.verdict}")

    # The winner's training score is the best of many; the held-out questions tell what it is worth.
    study.best.save(f"{out}/saved")
    # there is no default where it has won
    runs = {"default": study.default, "winner": study.validation}
    known = {name: run for name, run in runs.items() if run is not None}
    page = fm.report(list(known.values()), names=list(known), out=f"{out}/report.html")
    print(f"report: {page.path}")


if __name__ == "__main__":
    try:
        main()
    except fm.UserError as problem:
        sys.exit(f"folkmoot: {problem}")
    except KeyboardInterrupt:
        sys.exit("stopped; what is finished is kept: run it again to go on")
