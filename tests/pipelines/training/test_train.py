"""`folkmoot train` end to end: replayed, live, stopped, resumed, tested again, refused."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from children import Child, code, wait_until
from cli_helpers import folkmoot, lm, question, rows_of, write
from outcome_tables import embed_words, planted

from folkmoot.pipelines.testing.server import ScriptedServer, first_option
from folkmoot.pipelines.training.card import KIND

pytestmark = pytest.mark.usefixtures("quick_rivals")
SMALL = ["--set", "hidden=8", "--set", "heads=2", "--set", "lr=0.01"]
NAMES = ("individual", "consensus", "majority", "best_fixed", "best_per_group", "oracle")


@pytest.fixture
def tables(home: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Planted training and test outcomes, and embeddings that need no model."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    embed_words(monkeypatch)
    return write(home / "train.jsonl", *planted(60, 1)), write(home / "test.jsonl", *planted(80, 2))


def trained(tables: tuple[Path, Path], out: Path, *words: Any, code: int | None = None) -> Any:
    """The command's result on the tables, untracked unless the words say otherwise."""
    track = [] if "--track" in words else ["--no-track"]
    track += [] if "epochs=10" in words else ["--set", "epochs=4"]
    tested = ("--outcomes", tables[0], "--test", tables[1])
    return folkmoot("train", *tested, "--out", out, *track, *SMALL, *words, code=code)


def refused(said: Any) -> str:
    """The one line on standard error of a command that ended with bad input."""
    assert said.exit_code == 2, said.output
    lines = [line for line in said.stderr.strip().splitlines() if "warning: all-mpnet" not in line]
    assert len(lines) == 1, said.stderr
    assert lines[0].startswith("folkmoot: ")
    return str(lines[0])


def test_a_planted_rule_is_learned_and_the_json_has_the_fixed_names(tables, tmp_path, scripted):
    done = trained(tables, tmp_path / "net", "--seed", 3, "--json", code=0)
    found = json.loads(done.stdout)
    for name in NAMES:
        assert set(found[name]) == {"value", "low", "high", "calls"}
        assert 0 <= found[name]["low"] <= found[name]["value"] <= found[name]["high"] <= 1
    assert found["questions"] == 80
    assert found["individual"]["calls"] == found["best_fixed"]["calls"] == 1
    assert found["consensus"]["calls"] == 5
    # Each strategy alone is right about half of the time; the words tell which one to take.
    assert found["individual"]["value"] > found["best_fixed"]["value"] + 0.15
    gain = found["differences"]["individual"]["best_fixed"]
    assert gain["low"] > 0
    best = found["best_fixed"]["value"]
    assert gain["value"] == pytest.approx(found["individual"]["value"] - best)
    rivals = {"majority", "best_fixed", "best_per_group"}
    rivals |= {"individual", "vote_plain", "vote_conditional"}
    assert set(found["differences"]["consensus"]) == rivals
    for rival in ("knn", "regression"):
        assert found[rival]["value"] > found["best_fixed"]["value"] + 0.15
        assert found[rival]["calls"] == 1
        name = {"knn": "kNN", "regression": "the regression"}[rival]
        said = [sentence for sentence in found["verdict"] if sentence.startswith("the graph ")]
        assert any(sentence.endswith(name) for sentence in said)
    assert found["vote_conditional"]["value"] > found["vote_plain"]["value"] + 0.15
    assert found["vote_plain"]["calls"] == 3
    assert set(found["ties"]) == {"share", "gain_tied", "gain_untied"}
    assert not scripted.bodies
    names = {path.name for path in (tmp_path / "net").iterdir()}
    logs = {"training.json", "training_log.json", "scores.json"}
    assert names >= {"network.json", "tensors.safetensors", *logs}
    drawn = {path.name for path in (tmp_path / "net" / "plots").iterdir()}
    figures = ("graphs", "rewards", "strategies", "test", "trust")
    assert drawn == {f"{name}.png" for name in figures}
    assert found["strategy"]["cot"]["share"] > 0.3
    assert found["use_by_group"]["sums"]["cot"] > found["use_by_group"]["rivers"]["cot"] + 0.3


@pytest.mark.nightly
@pytest.mark.plots
def test_a_seed_gives_the_same_test_again(tables: tuple[Path, Path], tmp_path: Path) -> None:
    runs = [trained(tables, tmp_path / name, "--json").stdout for name in ("one", "two")]
    one, two = (json.loads(text) | {"out": None} for text in runs)
    assert one == two
    other = json.loads(trained(tables, tmp_path / "three", "--seed", 1, "--json").stdout)
    assert other["individual"] != one["individual"]
    again = folkmoot("evaluate", f"network:{tmp_path / 'one'}", "--outcomes", tables[1], "--json")
    assert again.exit_code == 0, again.output
    repeated = json.loads(again.stdout)
    assert repeated["verdict"] == one["verdict"]
    asked = write(tmp_path / "asked.jsonl", question(1))
    known = ("--dry-run", "--lm", "openai/x", "--api-base", "http://localhost:1")
    rival = f"network:{tmp_path / 'one' / 'rivals' / 'knn'}"
    folkmoot("evaluate", rival, "--data", asked, *known, code=0)
    for name in (*NAMES, "differences", "ties"):
        assert repeated[name] == one[name]
    shown = folkmoot("evaluate", f"network:{tmp_path / 'one'}", "--outcomes", tables[1])
    assert "consensus over majority" in shown.stdout


def test_results_teach(tables: tuple[Path, Path], tmp_path: Path, scripted: ScriptedServer) -> None:
    asked = [question(n, answer="AB"[n % 2]) for n in range(8)]
    learn, test = write(tmp_path / "a.jsonl", *asked[:4]), write(tmp_path / "b.jsonl", *asked[4:])
    words = [*lm(scripted), "--no-track", "--out"]
    for source, name in ((learn, "learn"), (test, "test")):
        spec = "ensemble:zero_shot,cot"
        assert folkmoot("evaluate", spec, "--data", source, *words, tmp_path / name).exit_code == 0
    calls = len(scripted.bodies)
    places = (tmp_path / "learn", tmp_path / "test" / "results.jsonl")
    done = trained(places, tmp_path / "net", "--json", code=0)
    found = json.loads(done.stdout)
    assert found["training"]["strategies"] == ["zero_shot", "cot"]
    assert found["consensus"]["value"] == 0.5
    assert len(scripted.bodies) == calls


def started(*words: Any) -> Child:
    """`folkmoot WORDS` in a process of its own, with embeddings that need no model."""
    start = "from outcome_tables import words_of\nfrom children import command\nimport sys\n"
    start += "from folkmoot.pipelines.data.embeddings import Embedder\n"
    start += "Embedder._encode = lambda self, t: words_of(t)\ncommand(*sys.argv[1:])\n"
    return Child(code, start, *words)


@pytest.mark.nightly
def test_another_training_is_not_mixed_in(tables: tuple[Path, Path], tmp_path: Path) -> None:
    assert trained(tables, tmp_path / "net").exit_code == 0
    assert "(other settings)" in refused(trained(tables, tmp_path / "net", "--set", "batch=4"))
    assert "(other network)" in refused(trained(tables, tmp_path / "net", "--seed", 5))
    other = write(tmp_path / "other.jsonl", *planted(60, 3))
    assert "(other questions)" in refused(trained((other, tables[1]), tmp_path / "net"))
    (tmp_path / "net" / "training.json").write_text("{")
    assert "training.json is damaged" in refused(trained(tables, tmp_path / "net"))


def test_bad_files_are_refused_in_one_sentence(tables: tuple[Path, Path], tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.jsonl", *planted(2, 1), {"question_id": "x"})
    done = trained((bad, tables[1]), tmp_path / "n")
    assert f"{bad}, line 7: 'question' is missing" in refused(done)
    same = refused(trained((tables[0], tables[0]), tmp_path / "n"))
    first = json.loads(tables[0].read_text().splitlines()[0])
    assert f"are training questions (the first is {first['question']!r}): test on others" in same
    strange = write(tmp_path / "s.jsonl", *planted(4, 5, agents=["somebody"]))
    assert "the agents somebody" in refused(trained((tables[0], strange), tmp_path / "n"))
    missing = folkmoot("train", "--out", tmp_path / "n")
    assert "give data to learn from" in refused(missing)
    assert "--out is missing" in refused(folkmoot("train", "--outcomes", tables[0]))
    two = write(tmp_path / "two.jsonl", *planted(4, 5, agents=["a", "b"]))
    several = folkmoot("train", "--outcomes", two, "--out", tmp_path / "n", "--set", "agents=5")
    assert "the outcomes have 2 agents, not 5" in refused(several)
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert "cannot be written" in refused(trained(tables, blocked / "n"))


@pytest.mark.nightly
def test_a_training_is_one_run_in_mlflow(tables: tuple[Path, Path], tmp_path: Path) -> None:
    from folkmoot.pipelines.tracking.store import open_client

    for _ in range(2):  # going on with a finished training logs nothing twice
        trained(tables, tmp_path / "net", "--track", code=0)
    client = open_client()
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    assert [run.info.status for run in runs] == ["FINISHED"]
    run = runs[0]
    training = json.loads((tmp_path / "net" / "training.json").read_text())
    assert run.info.run_id == training["mlflow_run_id"]
    place = client.download_artifacts(run.info.run_id, "details.json", str(tmp_path))
    settings = json.loads(Path(place).read_text())["settings"]
    assert (settings["program.gamma"], settings["settings.lr"]) == ("0.1", "0.01")
    steps = json.loads((tmp_path / "net" / "training_log.json").read_text())["steps"]
    for name, key in (("reward", "reward"), ("accuracy", "individual"), ("entropy", "entropy")):
        history = client.get_metric_history(run.info.run_id, name)
        wanted = [(step["questions"], pytest.approx(step[key], rel=1e-5)) for step in steps]
        assert [(one.step, one.value) for one in history] == wanted
    assert client.get_metric_history(run.info.run_id, "edges_changed")
    assert client.get_metric_history(run.info.run_id, "strategy/cot")
    scores = json.loads((tmp_path / "net" / "scores.json").read_text())
    assert run.data.metrics["majority"] == pytest.approx(scores["majority"]["value"])
    pictures = {item.path for item in client.list_artifacts(run.info.run_id, "plots")}
    names = ("graphs", "rewards", "strategies", "test", "trust")
    assert pictures == {f"plots/{name}.png" for name in names}
    network = {item.path for item in client.list_artifacts(run.info.run_id, "network")}
    assert network >= {"network/network.json", "network/tensors.safetensors"}


def questions_of(folder: Path, split: str, count: int) -> Path:
    asked = []
    for n in range(count):
        words = "add the sum" if n % 2 else "the river bank"
        text = f"{words} {split} {n}?"
        asked.append(question(n, id=f"{split}{n}", question=text, answer="AB"[n % 2]))
    return write(folder / f"{split}.jsonl", *asked)


def live_words(tmp_path: Path, url: str, out: Path) -> list[Any]:
    learn, test = questions_of(tmp_path, "learn", 12), questions_of(tmp_path, "exam", 6)
    sets = "agents=3", "strategies=[zero_shot, cot, self_ask]", "epochs=2", "batch=4"
    words = ["train", "network", "--train", learn, "--test", test, "--no-track", "--json"]
    words += ["--lm", "openai/scripted", "--api-base", url, "--out", out]
    return words + [f"--set={each}" for each in (*sets, "checkpoint_every=1")]


def by_strategy(body: dict[str, Any]) -> str:
    """Right on sums with a plain answer, right on rivers with an argued one."""
    reply = json.loads(first_option(body))
    sums = "add the sum" in str(body["messages"])
    reply["answer"] = ("B" if sums else "C") if len(reply) == 1 else ("C" if sums else "A")
    return json.dumps(reply)


def test_a_live_training_asks_keeps_and_tests(tables: Any, tmp_path: Path) -> None:
    with ScriptedServer(by_strategy) as server:
        words = live_words(tmp_path, server.url, tmp_path / "net")
        done = folkmoot(*words, code=0)
        found = json.loads(done.stdout)
        assert found["counts"]["rows"] == 6
        assert 0 < found["report"]["individual"] <= 1
        assert set(found["report"]["use"]) == {"agent.0", "agent.1", "agent.2"}
        rows = rows_of(tmp_path / "net")
        assert [row["id"] for row in rows] == [f"exam{n}" for n in range(6)]
        strategies = {turn["strategy"] for row in rows for turn in row["transcript"]}
        assert strategies <= {"zero_shot", "cot", "self_ask"}
        calls = len(server.bodies)
        assert calls <= 2 * 12 * 3 + 6 * 3
        folkmoot(*words, code=0)
        assert len(server.bodies) == calls
    kept = (tmp_path / "net" / "training" / ".folkmoot" / "calls.jsonl").read_text().splitlines()
    assert len(kept) == calls - 6 * 3
    read = folkmoot("evaluate", f"network:{tmp_path / 'net'}", "--outcomes", tmp_path / "net")
    assert "was not trained on outcomes" in refused(read)


@pytest.mark.nightly
def test_a_live_training_that_is_killed_repeats_no_call(tables: Any, tmp_path: Path) -> None:
    with ScriptedServer(by_strategy) as server:
        whole = folkmoot(*live_words(tmp_path, server.url, tmp_path / "whole"), code=0)
        server.requests.clear()
        server.delay = 0.05
        out = tmp_path / "cut"
        words = live_words(tmp_path, server.url, out)
        killed = started(*words)
        wait_until((out / "checkpoint.safetensors").exists)
        killed.send_signal(signal.SIGKILL)
        killed.wait(60)
        kept = (out / "training" / ".folkmoot" / "calls.jsonl").read_bytes().count(b"\n")
        server.delay = 0.0
        wait_until(lambda: not server.in_flight)
        server.requests.clear()
        resumed = folkmoot(*words, code=0)
        total = len((out / "training" / ".folkmoot" / "calls.jsonl").read_text().splitlines())
        assert len(server.bodies) == total - kept + 6 * 3
    for name in ("tensors.safetensors", "training_log.json"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    same = [json.loads(text.stdout)["report"] for text in (whole, resumed)]
    assert same[0] == same[1]


def test_a_budget_stops_a_live_training_more_goes_on(tables: Any, tmp_path: Path) -> None:
    with ScriptedServer(by_strategy) as server:
        words = live_words(tmp_path, server.url, tmp_path / "net")
        stopped = folkmoot(*words, "--budget", "10 calls", code=1)
        assert "budget 10 calls spent" in stopped.stderr
        assert "budget 10 calls spent" in str(KIND.card(tmp_path / "net").problem)
        assert len(server.bodies) == 10
        done = folkmoot(*words, "--budget", "500 calls", code=0)
        assert json.loads(done.stdout)["counts"]["rows"] == 6
