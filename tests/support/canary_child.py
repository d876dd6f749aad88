"""The child processes of test_canary.py: commands or calls in turn, with quick back-off."""

import json
import sys
import time

import dspy
from command_lines import commands
from outcome_tables import words_of
from planted import colours

import folkmoot as fm
from folkmoot.pipelines.data.embeddings import Embedder
from folkmoot.pipelines.lms import engine


def python(url: str, key: str) -> None:
    """Evaluate and save with LMs that LiteLLM calls: one is given its key here, one finds it."""
    own = {"api_base": url, "api_key": key, "cache": False, "num_retries": 0}
    lms = {name: dspy.LM(f"openai/{name}", **own) for name in ("given", "failing", "refused")}
    lms |= {
        f"found-{name}": fm.lm(f"hosted_vllm/{name}", api_base=url)
        for name in ("scripted", "refused")
    }
    for name, lm in lms.items():
        program = fm.SingleAgent("cot", lm=lm)
        try:
            record = f"calls/{name}"
            result = fm.evaluate(program, colours(4, "v"), out=f"runs/{name}", record=record)
            print(result, repr(result.summary))
        except fm.UserError as problem:
            print(problem)
        program.save(f"saved/{name}")
        print(program.describe(), lm)


if __name__ == "__main__":
    back_off = engine.back_off
    engine.back_off = lambda attempt, after: back_off(attempt, after, first=0.004, longest=0.02)
    Embedder._encode = lambda self, texts: words_of(texts)
    given = json.loads(sys.argv[1])
    began = time.process_time()
    python(**given) if isinstance(given, dict) else commands(given)
    print(f"{time.process_time() - began:.1f} s of CPU", file=sys.stderr)
