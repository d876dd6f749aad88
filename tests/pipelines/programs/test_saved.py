"""Saved programs: the same again in another process, nothing else from a hostile file."""

import json
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dspy
import pytest
from cli_helpers import folkmoot, isolate, question, rows_of, write
from outcome_tables import embed_words, words_of
from refusals import refused
from stores import new_store

import folkmoot as fm
from folkmoot.modules.base.errors import UserError
from folkmoot.modules.base.saved_file import FILE
from folkmoot.modules.protocols import saved as protocols_saved
from folkmoot.modules.protocols.program import Program
from folkmoot.modules.protocols.saved import FORMAT, hashes, predictors_of
from folkmoot.pipelines.lms.named import lm_identity
from folkmoot.pipelines.programs import restored
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.programs.saved import saved_program
from folkmoot.pipelines.testing.server import ScriptedServer, first_option

KEY = "sk-canary-0123456789abcdef"
PAGES = [
    {"title": "Bank", "text": "A bank keeps money. It is safe."},
    {"title": "River", "text": "A river is water. It flows."},
]
CHOICES = {"A": "bank", "B": "river"}
QUESTIONS: list[dict[str, Any]] = [
    {"question": "Where would you keep money?", "choices": CHOICES},
    {"question": "Is a river wet?", "kind": "boolean"},
    {"question": "What flows?", "context": ["A river flows.", "A bank does not."]},
]


@pytest.fixture(autouse=True)
def no_embedding_model(monkeypatch: pytest.MonkeyPatch) -> None:
    embed_words(monkeypatch)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps(page) + "\n" for page in PAGES))
    return path


def network() -> Program:
    small: Any = {"agents": 2, "hidden": 2, "heads": 1, "k": 1, "choice": "argmax"}
    config = fm.NetworkConfig(strategies=("simple", "cot"), **small)
    return fm.StrategyNetwork.untrained(config, words_of, sampling={"temperature": 0.25})


def deliberation() -> Program:
    sampling = {"temperature": 0.75, "seed": 3}
    return fm.Deliberation(["intuitive", "reasoner"], "majority", 2, sampling=sampling)


INNER = fm.Ensemble(["simple", fm.CausalConsistency(2, 1)], "weighted", [0.5, 2])
RETRIEVER: Any = {"role": "retriever", "sampling": {"top_p": 0.5, "stop": ["\n"]}}
CAUSAL: Any = {"th0": 0.25, "th1": 0.75, "n": 1, "d_max": 2, "without": ["concepts"], "seed": 7}
TEAM: Any = {"max_steps": 2, "max_retries": 1, "demonstration": "hotpotqa"}
TALKERS, WORKERS = ["retriever", "critic"], ["bold", "cautious", "bold"]
MAKERS: dict[str, Callable[[Any], Program]] = {
    f"single {name}": lambda corpus, name=name: fm.SingleAgent(name)  # type: ignore[misc]
    for name in fm.STRATEGIES
} | {
    "single role": lambda corpus: fm.SingleAgent(environment=corpus, **RETRIEVER),
    "deliberation": lambda corpus: deliberation(),
    "deliberation, judged": lambda corpus: fm.Deliberation(TALKERS, environment=corpus),
    "ensemble": lambda corpus: fm.Ensemble(
        ["cot", "cot", deliberation(), INNER], "weighted", [1, 0.25, 0, 3]
    ),
    "causal": lambda corpus: fm.CausalConsistency(3, 2, demonstration="boolq", **CAUSAL),
    "team": lambda corpus: fm.SupervisedTeam(WORKERS, corpus, **TEAM),
    "network": lambda corpus: network(),
    "networks in an ensemble": lambda corpus: fm.Ensemble([network(), "simple", network()]),
}


def taught(program: Program) -> Program:
    """With all changed that an optimizer changes, and a data set's questions as demonstrations."""
    asked = {"id": "q1", "question": "Which is wet? é😀", "choices": CHOICES}
    labelled = fm.Question(answer="B", meta={"headers": "x", "n": 1}, **asked)
    for place, (name, predictor) in enumerate(predictors_of(program).items()):
        signature = predictor.signature.with_instructions(f"Rule {place}.\nHeed {{it}} ✓")
        last = list(signature.output_fields)[-1]
        told = {"desc": f"what {name} says", "prefix": "Reply:"}
        predictor.signature = signature.with_updated_fields(last, **told)
        said = {field: f"said {field}" for field in signature.output_fields} | {"answer": "A"}
        inputs = {"question": "Where?", "choices": CHOICES, "kind": "choice", "context": None}
        traced = dspy.Example(augmented=True, **inputs, **said)
        predictor.demos = [labelled, traced, {**inputs, **said}]
    return program


def requests(program: Program, url: str, server: ScriptedServer) -> list[str]:
    """What the program sends for all questions, each once: equal ones are joined by chance."""
    server.requests.clear()
    with dspy.context(lm=fm.lm("openai/rest", api_base=url), disable_history=True):
        for question in QUESTIONS:
            program(**question)
    return sorted({json.dumps(body) for body in server.bodies})


@pytest.mark.parametrize("name", MAKERS)
def test_it_is_the_same_program_again(name, tmp_path, corpus, scripted):
    program = taught(MAKERS[name](fm.CorpusEnvironment(corpus)))
    program.save(tmp_path / "saved")
    loaded = fm.load_program(tmp_path / "saved")
    assert type(loaded) is type(program)
    assert loaded.describe() == program.describe()
    assert hashes(loaded) == hashes(program)
    assert requests(loaded, scripted.url, scripted) == requests(program, scripted.url, scripted)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again" / FILE).read_text() == (tmp_path / "saved" / FILE).read_text()


def test_lms_of_seats_are_kept_by_name_and_without_address_or_key(tmp_path, scripted, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    given: Any = {"temperature": 0.5, "max_tokens": 99, "answer_form": "text", "top_p": 0.9}
    own = fm.lm("openai/wise", api_base=scripted.url, **given)
    hidden: Any = {"api_key": KEY, "api_base": scripted.url, "headers": {"X-Token": KEY}}
    plain = dspy.LM("openai/foreign", top_p=0.3, **hidden)
    lms = {"judge": own, "intuitive": plain, "reasoner": fm.lm("openai/gpt-4o")}
    program = fm.Deliberation(["intuitive", "reasoner", "critic"], lms=lms)
    program.save(tmp_path)
    text = (tmp_path / FILE).read_text()
    for secret in (KEY, scripted.url, "127.0.0.1", "X-Token", "api_base"):
        assert secret not in text
    said = r"agent 'judge' had an address of its own.*--api-base judge=URL"
    refused(said, fm.load_program, tmp_path)
    mine = fm.lm("openai/mine", api_base=scripted.url)
    refused("agent 'intuitive' had an address", fm.load_program, tmp_path, lms={"judge": mine})
    with pytest.raises(UserError, match="no agent 'nobody'"):
        fm.load_program(tmp_path, lms={"intuitive": mine, "judge": mine, "nobody": mine})
    loaded = fm.load_program(tmp_path, lms={"intuitive": mine, "judge": mine})
    found = {name: seat.predict.lm for name, seat in loaded.seats().items()}
    assert [found[name] for name in ("intuitive", "judge", "critic")] == [mine, mine, None]
    assert lm_identity(found["reasoner"]) == lm_identity(lms["reasoner"])
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    again = fm.load_program(tmp_path).seats()["judge"].predict.lm
    assert {**(lm_identity(again) or {})} == {**(lm_identity(own) or {})}


def test_environments_are_named_and_found_again(tmp_path: Path, corpus: Path) -> None:
    kinds = {
        f"corpus:{corpus}": fm.CorpusEnvironment(corpus),
        "wikipedia:de.wikipedia.org/w/api.php": fm.WikipediaEnvironment("de.wikipedia.org"),
    }
    for number, (text, environment) in enumerate(kinds.items()):
        fm.SingleAgent(role="retriever", environment=environment).save(tmp_path / str(number))
        saved = json.loads((tmp_path / str(number) / FILE).read_text())
        assert saved["environments"] == {environment.fingerprint: text}
        loaded: Any = fm.load_program(tmp_path / str(number))
        assert loaded.environment.fingerprint == environment.fingerprint
    recorded = fm.RecordingEnvironment(fm.CorpusEnvironment(corpus), tmp_path / "record.jsonl")
    assert recorded.text_form == f"corpus:{corpus}"
    replayed = fm.ReplayEnvironment(tmp_path / "record.jsonl")
    fm.SupervisedTeam(["bold"], replayed).save(tmp_path / "replayed")
    fm.load_program(tmp_path / "replayed")
    private = fm.WikipediaEnvironment("wiki.example.org", private_hosts=["wiki.example.org"])
    assert private.text_form is None


def test_an_environment_that_cannot_be_found_is_given(tmp_path: Path, corpus: Path) -> None:
    team = fm.SupervisedTeam(["bold"], fm.CorpusEnvironment(PAGES))
    team.save(tmp_path / "p")
    refused(r"Python alone can make.*environment=", fm.load_program, tmp_path / "p")
    loaded = fm.load_program(tmp_path / "p", environment=fm.CorpusEnvironment(PAGES))
    assert hashes(loaded) == hashes(team)
    known = program_of(str(tmp_path / "p"), {"environment": f"corpus:{corpus}"})
    assert known.describe()["environment"]
    fm.SupervisedTeam(["bold"], fm.CorpusEnvironment(corpus)).save(tmp_path / "q")
    corpus.write_text(json.dumps(PAGES[0]) + "\n")
    refused(r"no longer what .* was saved with", fm.load_program, tmp_path / "q")
    fm.load_program(tmp_path / "q", environment=f"corpus:{corpus}")
    corpus.unlink()
    refused(r"no such corpus.*--set environment=", fm.load_program, tmp_path / "q")


def saved(folder: Path, program: Program | None = None) -> Path:
    (program or taught(deliberation())).save(folder)
    return folder


def rewritten(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the content of the file."""
    path = folder / FILE
    content = json.loads(path.read_text())
    path.write_text(json.dumps(change(content) or content))


@pytest.fixture
def any_content_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hashes in a file fit it whatever it says, as an attacker would make them."""
    same = {"prompt_hash": "0", "program_hash": "0"}
    for module in (protocols_saved, restored):
        monkeypatch.setattr(module, "hashes_of", lambda *_: same)


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """A change: the last item at the place that the others name."""

    def change(known: Any) -> None:
        *way, key, value = path
        for step in way:
            known = known[step]
        known[key] = value

    return change


FIRST = ("predictors", "agents[0].predict")
LM = {"name": "openai/x", "settings": {}, "profile": None, "addressed": False}
ADDRESS, API = {**LM, "name": "openai/http://evil"}, {**LM, "api_base": "http://evil"}
PROFILE = {**LM, "profile": {"code": "x"}}
UNKNOWN = "of the program 'os:abort', which is not known here"
HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "newer": (put("format", FORMAT + 1), "upgrade folkmoot"),
    "unknown protocol": (put("program", "program", "os:abort"), UNKNOWN),
    "unknown key": (put("pickle", "gASV"), "pickle: Extra inputs"),
    "unknown parameter": (put("program", "max_round", 3), "no parameter 'max_round'"),
    "wrong type": (put("predictors", []), "valid dictionary"),
    "another seat": (put(*FIRST, "seat", "judge"), "other agents"),
    "other sampling": (put("program", "sampling", {"temperature": 0.1}), "another sampling"),
    "hidden address": (put("lms", "intuitive", API), "'api_base', an address or key of an LM"),
    "a key": (put("api_key", KEY), "'api_key', an address or key"),
    "address as name": (put("lms", "intuitive", ADDRESS), "address in the LM"),
    "LM of nobody": (put("lms", "judge", LM), "agent 'judge', which it does not have"),
    "unknown profile": (put("lms", "intuitive", PROFILE), "profile that is not valid"),
}


@pytest.mark.usefixtures("any_content_fits")
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_ones_load_none(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    change, said = HOSTILE[case]
    rewritten(saved(tmp_path), change)
    refused(said, fm.load_program, tmp_path)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


DEEP = ('{"format": 1, "x": {"demos": {"choices": ' + nested(90) + "}}}").encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (pickle.dumps({"program": "x"}), "not valid JSON"),
        (b"[]", "holds no program"),
        (b'{"format": 1, "format": 1}', "a key is given twice"),
        (b'{"format": 1}', "Field required"),
        (nested(200_000).encode(), "nested too deeply|holds no program"),
        (DEEP, "nested too deeply"),
        (b'{"format": ' + b"9" * 5000 + b"}", "not valid JSON"),
    ],
)
def test_what_is_no_plain_json_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(content)
    refused(said, fm.load_program, tmp_path)


def test_files_that_are_none_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path / "p")
    link = tmp_path / "link"
    link.mkdir()
    (link / FILE).symlink_to(tmp_path / "p" / FILE)
    refused("is a link", fm.load_program, link)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "fifos").mkdir()
    os.rename(tmp_path / "fifo", tmp_path / "fifos" / FILE)
    refused("not a regular file", fm.load_program, tmp_path / "fifos")
    (tmp_path / "empty").mkdir()
    refused("holds no saved program", fm.load_program, tmp_path / "empty")
    refused("is a file: name a folder", fm.load_program, tmp_path / "p" / FILE)
    refused("is a pickle", fm.load_program, tmp_path / "program.pkl")
    with (tmp_path / "p" / FILE).open("ab") as file:
        file.truncate(65 * 2**20)
    refused("has more than 67,108,864 bytes", fm.load_program, tmp_path / "p")
    saved(tmp_path / "p")
    (tmp_path / "p" / "program.pkl").write_bytes(pickle.dumps(print))
    refused("holds a pickle", fm.load_program, tmp_path / "p")


@pytest.mark.usefixtures("any_content_fits")
def test_environments_of_a_hostile_file_are_refused(tmp_path: Path, corpus: Path) -> None:
    program = fm.SingleAgent(role="retriever", environment=fm.CorpusEnvironment(corpus))
    mark = program.describe()["environment"]
    secret = tmp_path / "secret.jsonl"
    secret.write_text(json.dumps({"title": "Salaries", "text": "Secret."}) + "\n")
    for text, said in {
        f"corpus:{secret}": "no longer what",
        "corpus:/nowhere/at/all": "no such corpus",
        "wikipedia:evil.example.org": "other than Wikipedia's",
        "wikipedia:wikipedia.org.evil.example": "other than Wikipedia's",
        f"record:{tmp_path}/made.jsonl:corpus:{corpus}": "files may not open",
        "folkmoot.modules:CorpusEnvironment": "files may not open",
    }.items():
        rewritten(saved(tmp_path / "p", program), put("environments", mark, text))
        refused(said, fm.load_program, tmp_path / "p")
    rewritten(saved(tmp_path / "p", program), put("environments", {}))
    refused("does not say where its environment is", fm.load_program, tmp_path / "p")
    assert not (tmp_path / "made.jsonl").exists()


@pytest.mark.usefixtures("any_content_fits")
def test_networks_of_a_hostile_file_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "p"
    program = fm.Ensemble([network(), "simple"])
    learned = program.describe()["members"][0]["learned"]
    saved(place, program)
    fm.load_program(place)
    tensors = place / learned / "tensors.safetensors"
    other = tmp_path / "other.safetensors"
    tensors.rename(other)
    tensors.symlink_to(other)
    refused("is a link", fm.load_program, place)
    tensors.unlink()
    tensors.write_bytes(pickle.dumps([1]))
    refused(r"tensors\.safetensors\) cannot be loaded", fm.load_program, place)
    saved(place, program)
    for way in ("../x", "/etc", ".."):
        rewritten(place, put("program", "members", 0, "learned", way))
        refused(r"network/network.json cannot be read", fm.load_program, place)
    saved(place, program)
    about = json.loads((place / learned / "network.json").read_text())
    (tmp_path / "model").mkdir()
    for model in (str(tmp_path / "model"), "../model", "~/model", "https://evil/model"):
        about["config"]["embedding"] = model
        (place / learned / "network.json").write_text(json.dumps(about))
        rewritten(place, put("program", "members", 0, "config", about["config"]))
        refused("which may hold code", fm.load_program, place)


def test_other_versions_are_a_warning(tmp_path: Path) -> None:
    rewritten(saved(tmp_path), put("versions", {"dspy": "2.0"}))
    with pytest.warns(UserWarning, match=r"was saved with folkmoot none \(now .*, dspy 2.0 \(now"):
        fm.load_program(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fm.load_program(saved(tmp_path))


def test_dspys_own_file_keeps_prompts_leaves_lms(tmp_path: Path, scripted: ScriptedServer) -> None:
    path = tmp_path / "state.json"
    lms = {"intuitive": fm.lm("openai/wise", api_base=scripted.url)}
    program = taught(fm.Deliberation(["intuitive", "reasoner"], lms=lms))
    program.save(path)
    assert not [text for text in ("wise", scripted.url) if text in path.read_text()]
    assert sorted(item.name for item in tmp_path.iterdir()) == ["state.json"]
    loaded = fm.Deliberation(["intuitive", "reasoner"], lms=lms)
    loaded.load(path)
    assert loaded.seats()["intuitive"].predict.lm is lms["intuitive"]
    assert requests(loaded, scripted.url, scripted) == requests(program, scripted.url, scripted)
    state = json.loads(path.read_text())
    evil = {"model": "openai/evil", "api_base": "http://evil", "cache": False}
    state["agents[0].predict"]["lm"] = evil
    state["agents[0].predict"]["acall"] = "x"
    path.write_text(json.dumps(state))
    for seated in (lms, None):
        program = fm.Deliberation(["intuitive", "reasoner"], lms=seated)
        with pytest.warns(UserWarning, match="LM 'openai/evil', which is ignored"):
            program.load(path)
        assert program.seats()["intuitive"].predict.lm is (seated or {}).get("intuitive")
    program.load(path, allow_unsafe_lm_state=True)
    assert program.seats()["intuitive"].predict.lm.kwargs["api_base"] == "http://evil"


@pytest.mark.parametrize(
    ("path", "options"),
    [("p", {"save_program": True}), ("p.pkl", {}), ("p", {"modules_to_serialize": [json]})],
)
def test_pickle_is_never_written(path: str, options: Mapping[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="pickle could run anything"):
        fm.SingleAgent("cot").save(tmp_path / path, **options)
    assert not list(tmp_path.iterdir())


def test_settings_that_leave_the_seats_can_be_set(tmp_path: Path) -> None:
    program = taught(deliberation())
    program.save(tmp_path)
    changed = saved_program(tmp_path, sets={"max_rounds": 5, "sampling": {"temperature": 1.0}})
    settings = {"max_rounds": 5, "sampling": {"temperature": 1.0}}
    assert changed.describe() == {**program.describe(), **settings}
    assert hashes(changed)["prompt_hash"] == hashes(program)["prompt_hash"]
    for sets, said in (
        ({"tie_break": "judge"}, "with tie_break set, .* would have other agents"),
        ({"max_round": 1}, "no parameter 'max_round'"),
        ({"demonstration": "boolq"}, "demonstration cannot be set"),
        ({"environment": "corpus:x"}, "looks nothing up"),
    ):
        refused(said, saved_program, tmp_path, sets=sets)


def test_a_setting_may_leave_an_agent_without_a_turn(tmp_path: Path) -> None:
    """Without a judge, the prompts of the others are those that were saved."""
    program = taught(fm.Deliberation(["intuitive", "reasoner"], tie_break="judge"))
    program.save(tmp_path)
    changed = saved_program(tmp_path, sets={"tie_break": "majority"})
    assert set(changed.seats()) == set(program.seats()) - {"judge"}
    for name, seat in changed.seats().items():
        assert seat.predict.signature.equals(program.seats()[name].predict.signature)


def command(*words: Any, code: int = 0) -> Any:
    return folkmoot(*words, code=code)


def test_saved_folders_are_programs_of_every_command(tmp_path, scripted, monkeypatch):
    isolate(tmp_path, monkeypatch)
    given: Any = {"temperature": 0.5, "max_tokens": 77, "answer_form": "text"}
    wise = fm.lm("openai/wise", api_base=scripted.url, **given)
    program = taught(fm.Deliberation(["intuitive", "reasoner"], lms={"reasoner": wise}))
    program.save("best")
    scripted.reply = first_option
    ask = ["ask", "best", "Where is money?", "--choice", "A=bank", "--choice", "B=river", "--json"]
    every = ["--lm", "openai/rest", "--api-base", scripted.url]
    assert json.loads(command(*ask, *every).stdout)["answer"] == "A"
    rest, reasoner = scripted.bodies
    assert (rest["model"], rest["temperature"], reasoner["model"]) == ("rest", 0.0, "wise")
    assert (reasoner["temperature"], reasoner["max_tokens"]) == (0.5, 77)
    assert "Rule 1. Heed {it} ✓" in reasoner["messages"][-1]["content"]
    scripted.requests.clear()
    others = [f"--{what}={seat}={value}" for seat in ("intuitive", "judge")
              for what, value in (("lm", "openai/mine"), ("api-base", scripted.url))]  # fmt: skip
    command(*ask, *others, "--api-base", f"reasoner={scripted.url}")
    assert scripted.bodies == [{**rest, "model": "mine"}, reasoner]
    missing = command(*ask, "--lm", "openai/rest", "--api-base", f"judge={scripted.url}", code=2)
    assert "had an address of its own" in missing.output
    scripted.requests.clear()
    command(*ask, *every, "--lm", "reasoner=openai/mine")
    assert [body["model"] for body in scripted.bodies] == ["rest", "mine"]
    data = write(tmp_path / "data.jsonl", question(1))
    train = write(tmp_path / "train.jsonl", question(2))
    run = ["evaluate", "best", "--data", data, *every, "--no-track", "--json"]
    command(*run, "--out", "run", "--set", "max_rounds=1")
    made = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (made["program"]["max_rounds"], made["settings"]["demos"]) == (1, 3)
    assert "other agents" in command(*run, "--set", "roles=[critic]", code=2).output
    command(*run, "--demos", 1, "--train", train, "--out", "shown")
    assert len(rows_of(tmp_path / "shown")) == 1
    command("ask", "nothing-here/", "Where?", code=2)


@pytest.mark.nightly
def test_mlflow_loads_it_without_pickle(tmp_path, corpus, scripted, monkeypatch):
    isolate(tmp_path, monkeypatch)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    from folkmoot.pipelines.tracking.store import open_client

    scripted.reply = lambda body: (400, {}, {}) if "break" in str(body) else first_option(body)
    wise = fm.lm("openai/wise", api_base=scripted.url, temperature=0.5)
    program = taught(fm.Deliberation(["retriever", "reasoner"], lms={"judge": wise}, max_rounds=1,
                                     environment=fm.CorpusEnvironment(corpus)))  # fmt: skip
    client = open_client()
    experiment = client.create_experiment("e", artifact_location=(tmp_path / "artifacts").as_uri())
    run = client.create_run(experiment).info.run_id
    rest = fm.lm("openai/rest", api_base=scripted.url)
    address = fm.log_program(program, "moot", run_id=run, lm=rest)
    assert fm.log_program(program, "moot", run_id=run) == address, "the run has it"
    assert not scripted.bodies
    assert len(client.get_run(run).outputs.model_outputs) == 1
    assert [each.version for each in client.search_model_versions("name='moot'")] == [1]
    files = [path for path in (tmp_path / "artifacts").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if path.suffix in (".pkl", ".pickle", ".bin")]
    for path in files:
        assert not [secret for secret in (KEY, scripted.url) if secret in path.read_text()], path
        if path.name == "requirements.txt":
            assert all("==" in line and "/" not in line for line in path.read_text().splitlines())
    with dspy.context(lm=rest, disable_history=True):
        expected = [program(**question).answer for question in QUESTIONS]
    wanted = sorted(json.dumps(body) for body in scripted.bodies)
    scripted.requests.clear()
    child = (
        "import sys, json, pandas, mlflow\n"
        "_, by_run, url, questions = sys.argv; questions = json.loads(questions)\n"
        "model = mlflow.pyfunc.load_model(by_run)\n"
        "assert model.metadata.signature.inputs.input_names() == ['question', 'choices', "
        "'context', 'kind']\n"
        "assert set(model.input_example[0]) <= {'question', 'choices', 'kind'}\n"
        "other = mlflow.pyfunc.load_model('models:/moot/1', model_config={'api_base': {'*': "
        "url}})\n"
        "print(type(other.unwrap_python_model().program).__name__)\n"
        "for given in (questions, pandas.DataFrame(questions)):\n"
        "    for each in (model, other): print(json.dumps(each.predict(given).to_dict('list')))\n"
        "print(json.dumps(other.predict([{'question': 'break it'}, "
        "questions[1]]).to_dict('list')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", child, address, scripted.url, json.dumps(QUESTIONS)],
        env={**os.environ, "OPENAI_BASE_URL": scripted.url}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    name, *found, broken = done.stdout.splitlines()
    assert name == "Deliberation"
    assert [json.loads(line)["answer"] for line in found] == [expected] * 4
    assert json.loads(broken)["answer"] == [None, "yes"]
    assert "400" in json.loads(broken)["error"][0]
    asked = sorted(json.dumps(body) for body in scripted.bodies if "break" not in str(body))
    assert set(asked) == set(wanted)


def test_an_mlflow_model_says_what_it_needs(tmp_path: Path, scripted: ScriptedServer) -> None:
    from types import SimpleNamespace

    from folkmoot.pipelines.tracking.models import ProgramModel

    judge = fm.lm("openai/wise", api_base=scripted.url)
    fm.Deliberation(["reasoner"], lms={"judge": judge}).save(tmp_path)
    context = SimpleNamespace(artifacts={"program": str(tmp_path)}, model_config={})
    with pytest.raises(UserError, match="agent 'judge' had an address of its own"):
        ProgramModel().load_context(context)
    places = {"judge": scripted.url, "*": scripted.url}
    context.model_config = {"lm": "openai/rest", "api_base": places}
    model = ProgramModel()
    model.load_context(context)
    assert list(model.predict(context, [QUESTIONS[1]])["answer"]) == ["yes"]
    refused("row 1: the row has no 'question'", model.predict, context, [{"text": "x"}])
    refused("row 2 is not a question", model.predict, context, [QUESTIONS[1], "x"])
