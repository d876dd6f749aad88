"""Bad input on the command line: one clear sentence, exit code 2, and not one call."""

from pathlib import Path

import pytest
from cli_helpers import folkmoot, lm, question, ten_questions, write

ONE = ["evaluate", "single:cot", "--data", "questions.jsonl"]
PARTS = ["--train", "questions.jsonl", "--validation", "other.jsonl", "--out", "runs/new"]
COMPILE, TUNE = ["compile", "single:cot", *PARTS], ["tune", "single", *PARTS]
BAD: list[tuple[list[str], str]] = [
    ([*ONE[:3], "faulty.jsonl"], "line 2: the id 'q1' already stands"),
    ([*ONE[:3], "empty.jsonl"], "no questions"),
    ([*ONE[:3], "unlabelled.jsonl"], "no answer"),
    ([*ONE[:3], "none.jsonl"], "none.jsonl"),
    ([*ONE[:3], "program.yaml"], "program.yaml has a type that cannot be read, and questions"),
    ([*ONE[:3], "folder"], "folder is a folder, and questions are wanted here: give a .jsonl"),
    ([*ONE[:3], "https://example.org/q.csv"], "is an address: fetch the file"),
    (["evaluate", *ONE[2:], "questions.jsonl"], "such as questions, and not a program"),
    (["tune", "questions.jsonl", *PARTS], "such as questions, and not a program"),
    (["evaluate", *ONE[2:], "list.json"], "such as questions, and not a program"),
    (["evaluate", *ONE[2:], "pipeline.yaml"], "run it by folkmoot pipeline pipeline.yaml"),
    (["tune", "pipeline.yaml", *PARTS], "run it by folkmoot pipeline pipeline.yaml"),
    (["evaluate", *ONE[2:], "words.txt"], "words.txt holds no program: name a YAML file"),
    (["evaluate", *ONE[2:], "crew.py"], "name the program in it, such as crew.py:NAME"),
    (
        ["evaluate", "crew", *ONE[2:]],
        "there is no program or file 'crew' (did you mean 'crew.py:NAME'",
    ),
    ([*ONE, "--metric", "nomod:f"], "there is no metric or module 'nomod'"),
    ([*ONE, "--roles", "other.jsonl"], "such as questions, and not a role"),
    ([*ONE[:3], "sample-chioce"], "did you mean 'sample-choice'"),
    (["evaluate", "singel:cot", *ONE[2:]], "did you mean 'single'"),
    (["evaluate", "deliberation:intuitive,boss", *ONE[2:]], "no role 'boss'"),
    (["evaluate", "ensemble:simple,cot:weighted", *ONE[2:]], "--train"),
    ([*ONE, "--set", "max_round=2"], "no parameter 'max_round'"),
    ([*ONE, "--set", "max_rounds"], "KEY=VALUE"),
    ([*ONE, "--lm", "jugde=openai/x"], "no agent 'jugde'"),
    ([*ONE, "--lm", "cot=openai/x", "--lm", "cot=openai/y"], "twice"),
    ([*ONE, "--lm", "cot=openia/gpt-4o"], "did you mean 'openai/gpt-4o'"),
    ([*ONE, "--lm", "cot=gpt"], "'gpt' is not an LM name"),
    ([*ONE, "--lm", "cot=replay/none"], "not a recorded run"),
    ([*ONE, "--api-base", "cot=nowhere"], "what is given is not a usable address"),
    ([*ONE, "--api-base", "cot=localhost:8000"], "what is given is not a usable address"),
    ([*ONE, "--lm-set", "foo=1"], "'foo=1' names no setting of an LM"),
    ([*ONE, "--check", "true"], "only tasks have a check"),
    (["evaluate", "nowhere:Team", *ONE[2:]], "no program or module 'nowhere'"),
    (["evaluate", "json:Loads", *ONE[2:]], "'Loads' (did you mean 'loads'?): correct the program"),
    (["tune", "nowhere", *PARTS], "no program or file 'nowhere'"),
    ([*ONE, "--columns", "question"], "FIELD=COLUMN"),
    ([*ONE, "--kind", "essay"], "kind is 'essay'"),
    ([*ONE, "--limit", "0"], "--limit is 0: give a whole number of at least 1"),
    ([*ONE, "--limit", "x"], "--limit is 'x': give a whole number of at least 1"),
    ([*ONE, "--temperature", "nan"], "--temperature is nan: give a number of at least 0"),
    ([*ONE, "--timeout", "inf"], "--timeout is inf: give a number of at least 0.1"),
    ([*ONE, "--max-usd-per-task", "-1"], "--max-usd-per-task is -1.0: give a number of at least 0"),
    ([*ONE, "--dta", "x"], "evaluate has no option --dta: did you mean --data?"),
    ([*ONE, "other.jsonl"], "'other.jsonl' is one word too many"),
    (["tune", "single", "--data", "questions.jsonl"], "its questions are --train and --validation"),
    (["data", "questions.jsonl"], "No such command 'questions.jsonl': folkmoot data has check"),
    (["evalute", *ONE[1:]], "Did you mean 'evaluate'?"),
    ([*ONE, "--out", "questions.jsonl"], "questions.jsonl cannot be written"),
    ([*ONE, "--out", "x" * 300, "--dry-run"], "cannot be written (File name too long)"),
    ([*ONE, "--record", "questions.jsonl", "--dry-run"], "choose another --record"),
    ([*ONE, "--split", "test"], "no split"),
    ([*ONE, "--demos", "2"], "--demos needs --train"),
    ([*ONE, "--train", "sample-choice"], "nothing learns"),
    ([*ONE, "--train", "sample-choice", "--demos", "99"], "only 40"),
    (["ask", "single:cot", "  "], "folkmoot: the question needs its text; it is blank"),
    (["ask", "single:cot", "What?", "--choice", "one"], "--choice is given 1 time: give it 2"),
    (["ask", "single:cot", "What?", "--choice", "A=x", "--choice", "A=y"], "a label twice"),
    (["ask", "single:cot", "What?", "--context", "long " * 10_000], "context of 50,000 characters"),
    ([*COMPILE, "--optimizer", "gema"], "did you mean 'gepa'"),
    ([*COMPILE, "--preset", "lite"], "no preset 'lite'"),
    ([*COMPILE, "--budget", "many"], "the budget 'many' cannot be read"),
    ([*COMPILE, "--prompt-api-base", "http://x/v1"], "without --prompt-lm"),
    ([*COMPILE, "--validation", "questions.jsonl"], "are training questions"),
    ([*TUNE, "--set", "rounds=2"], "no such parameter"),
    ([*TUNE, "--objective", "accuracy,speed"], "no objective 'speed'"),
    ([*TUNE, "--sampler", "magic"], "no sampler 'magic'"),
    ([*TUNE, "--register", "x", "--no-track"], "--register needs MLflow"),
]


@pytest.mark.parametrize(("words", "told"), BAD)
def test_bad_input_is_refused_before_any_call(words, told, scripted, home):
    ten_questions(home)
    write(home / "other.jsonl", *(question(number) for number in range(20, 26)))
    write(home / "faulty.jsonl", question(1), question(1), question(2, question=None))
    write(home / "unlabelled.jsonl", question(1, answer=None))
    write(home / "empty.jsonl")
    (home / "program.yaml").write_text("program: deliberation\n")
    (home / "pipeline.yaml").write_text("data: q.jsonl\nprograms: [single:cot]\ncompile: {}\n")
    (home / "list.json").write_text('[{"question": "Who?", "answer": "I"}]')
    (home / "words.txt").write_text("What it says: words: and more\n")
    (home / "crew.py").write_text("def team(question): ...\n")
    (home / "folder").mkdir()
    result = folkmoot(*words, *lm(scripted), code=2)
    assert told in result.stderr
    assert result.stderr.startswith("folkmoot: ")
    # each fault of a file has a line of its own
    assert all(line.startswith("  line ") for line in result.stderr.splitlines()[1:])
    assert result.stdout == ""
    assert not scripted.requests
    assert not Path("runs").exists()
