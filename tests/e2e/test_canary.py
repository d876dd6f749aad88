"""No key and no password reaches a file, trace, log or output, whatever a server repeats."""

import base64
import gzip
import json
import os
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cli_helpers import rows_of
from planted import colours, is_proposal, of_instructions
from stores import new_store
from wire_server import Server

from folkmoot.pipelines.testing.server import ScriptedServer, first_option

KEY = "sk-canary-9d2c71e4b8a35f06"
PASSWORD = "pw-canary/51+e0c7d2"
IN_URL = quote(PASSWORD, safe="")
CHILD = Path(__file__).parents[1] / "support" / "canary_child.py"
FILES = ["--train", "train.jsonl", "--validation", "validation.jsonl"]


def forms(secret: str) -> list[bytes]:
    """The secret as it is, in an address, in JSON, and inside anything that was put into base64."""
    found = {secret, quote(secret), quote(secret, safe=""), json.dumps(secret)[1:-1]}
    for place in range(3):
        coded = base64.b64encode(b"\0" * place + secret.encode()).decode()
        found.add(coded[place and 4 : -4])  # the letters that hold nothing of what stands around
    return [form.encode() for form in found]


NEEDLES = [form for secret in (KEY, PASSWORD) for form in forms(secret)]


def holds_secret(content: bytes) -> bool:
    return any(needle in content for needle in NEEDLES)


def contents(path: Path) -> Iterator[bytes]:
    yield path.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            yield from (packed.read(name) for name in packed.namelist())
    elif path.suffix == ".gz":
        yield gzip.decompress(path.read_bytes())


def leaks(root: Path) -> list[str]:
    """The files below a folder whose name or content holds a secret."""
    found = [path for path in root.rglob("*") if path.is_file()]

    def spoiled(path: Path) -> bool:
        return holds_secret(str(path).encode()) or any(map(holds_secret, contents(path)))

    return [str(path.relative_to(root)) for path in found if spoiled(path)]


class Place:
    """A scratch folder for all that a child writes: home, cache, temporary and working folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.work = root, root / "work"
        for name in ("work/data", "home", "cache", "tmp"):
            (root / name).mkdir(parents=True)
        new_store(root)
        broken = {"id": "broken", "question": "Which colour has broken number 1?", "answer": "A"}
        counts = (("train", 16), ("validation", 9), ("questions", 12))
        rows = {name: [one.to_row() for one in colours(n, name[0])] for name, n in counts}
        rows["questions"].append(rows["questions"][0] | broken)
        for name, said in rows.items():
            self.write(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in said))
        held_out = (self.work / "validation.jsonl").read_text()
        self.write("data/commonsenseqa-validation.jsonl", held_out)
        talk = "program: deliberation\nroles: [[intuitive, reasoner]]\nmax_rounds: {from: 1, to: 2}"
        how = "tie_break: [strongest, judge]\nsampling: {temperature: null}\n"
        self.write("space.yaml", f"{talk}\n{how}")

    def write(self, name: str, text: str) -> None:
        (self.work / name).write_text(text)

    @property
    def store(self) -> str:
        """A tracking store that works, and whose address holds a password that SQLite overlooks."""
        return f"sqlite:///file:{self.root}/mlflow.db?uri=true&password={IN_URL}"

    def run(self, given: Any, **environment: str) -> str:
        """What a child said that was given these commands or arguments."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        places = {"HOME": "home", "XDG_CACHE_HOME": "cache", "TMPDIR": "tmp"}
        own = {name: str(self.root / folder) for name, folder in places.items()}
        own |= {"FOLKMOOT_DATA": str(self.work / "data"), "MLFLOW_TRACKING_URI": self.store}
        own |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OMP_NUM_THREADS": "1"}
        environment = {**kept, **own, **environment}
        words = [sys.executable, str(CHILD), json.dumps(given)]
        how: Any = {"capture_output": True, "text": True, "timeout": 300}
        done = subprocess.run(words, cwd=self.work, env=environment, **how)
        (self.root / "stdout").write_text(done.stdout)
        (self.root / "stderr").write_text(done.stderr)
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        assert "Traceback" not in said, said
        return said

    @property
    def codes(self) -> list[int]:
        return list(json.loads((self.work / "codes.json").read_text()))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def repeating(server: ScriptedServer) -> Callable[[dict[str, Any]], Any]:
    """Answers that repeat the Authorization header everywhere; one model and one question fail."""
    inner = of_instructions()

    def reply(body: dict[str, Any]) -> Any:
        heard = server.requests[-1]["headers"].get("Authorization", "")
        shown = {"message": f"Wrong: Authorization: {heard}", "headers": {"Authorization": heard}}
        error = {"error": shown}
        if body["model"] == "given":
            return json.dumps({"reasoning": "because it fits", "answer": "A"})
        if body["model"] == "failing":
            return 500, {"X-Heard": heard}, error
        if body["model"] == "refused":
            return 401, {"X-Heard": heard}, error
        last = body["messages"][-1]["content"]
        if "broken number" in last:
            return 503, {"X-Heard": heard}, error
        inside = is_proposal(body) or "Which colour has" in last
        said = inner(body) if inside else first_option(body)
        return said.replace("because", f"because of {heard}").replace("Think", f"Think of {heard}")

    return reply


def lm(server: ScriptedServer, model: str = "scripted", user: str = "") -> list[str]:
    return ["--lm", f"openai/{model}", "--api-base", server.url.replace("//", f"//{user}")]


def test_the_search_finds_what_is_planted(tmp_path: Path) -> None:
    hidden = {"plain": f"key={KEY}".encode(), "address": f"http://me:{IN_URL}@host".encode()}
    for user in ("m", "me", "you"):
        hidden[f"header of {user}"] = base64.b64encode(f"{user}:{PASSWORD}".encode())
    hidden["packed.gz"] = gzip.compress(KEY.encode())
    for name, content in hidden.items():
        (tmp_path / name).write_bytes(content)
    with zipfile.ZipFile(tmp_path / "packed.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("inside", KEY * 9)
    (tmp_path / f"named-{KEY}").touch()
    (tmp_path / "innocent").write_text("sk-canary")
    assert sorted(leaks(tmp_path)) == sorted([*hidden, "packed.zip", f"named-{KEY}"])


def check_that_all_was_written(place: Place) -> None:
    """Each command left its files and its MLflow run, the first one a trace of every question."""
    runs = ["talk/results.jsonl", "one/run.json", "compiled/program/program.json"]
    runs += ["tuned/study.json", "network/training/.folkmoot/calls.jsonl"]
    for name in ("calls/calls.jsonl", "report.html", "study.db", *(f"runs/{run}" for run in runs)):
        assert (place.work / name).is_file(), name
    with closing(sqlite3.connect(place.root / "mlflow.db")) as stored:
        for table, least in (("runs", 12), ("trace_info", 13)):
            assert stored.execute(f"SELECT count(*) FROM {table}").fetchone()[0] >= least
    assert "because of Bearer …" in (place.work / "runs/talk/.folkmoot/traces.jsonl").read_text()


@pytest.mark.nightly
def test_no_command_leaves_a_trace_of_key_or_store(place: Place, scripted: ScriptedServer) -> None:
    scripted.reply = repeating(scripted)
    asked, refused = lm(scripted), lm(scripted, "refused")
    one = ["evaluate", "single:cot", "--data", "questions.jsonl"]
    talk = ["evaluate", "deliberation:intuitive,reasoner:judge", "--data", "questions.jsonl"]
    tune = ["tune", "space.yaml", *FILES, "--trials", "2", "--out", "runs/tuned"]
    study = f"sqlite:///file:study.db?uri=true&password={IN_URL}"
    train = ["train", "network", "--train", "train.jsonl", "--test", "validation.jsonl", *asked]
    train += ["--set", "agents=2", "--set", "strategies=[zero_shot, cot]", "--set", "epochs=1"]
    compiled = ["compile", "single:simple", *FILES, *asked, "--optimizer", "copro"]
    row = "agents-of-commonsense/table-1/mistral-7b.cot"
    reported = ["runs/talk", "runs/one", "runs/compiled", "runs/tuned", "--out", "report.html"]
    commands = [
        [*talk, *asked, "--traces", "1.0", "--record", "calls", "--out", "runs/talk"],
        [*one, *asked, "--out", "runs/one", "--json"],
        [*compiled, "--out", "runs/compiled"],
        [*tune, *asked, "--storage", study],
        [*train, "--out", "runs/network"],
        ["reproduce", row, *asked, "--out", "runs/again"],
        ["report", *reported],
        [*one, *refused],
        ["ask", "single:cot", "Is it so?", "--choice", "yes", "--choice", "no", *refused],
        ["doctor", *asked],
    ]
    place.run(commands, OPENAI_API_KEY=KEY)
    assert place.codes == [0] * 7 + [2, 2, 0]
    assert leaks(place.root) == []
    check_that_all_was_written(place)
    errors = [row["error"] for row in rows_of(place.work / "runs/talk") if row.get("error")]
    assert len(errors) == 1
    assert "Wrong: Authorization: Bearer …" in errors[0]
    said = (place.root / "stderr").read_text()
    ends = [line for line in said.splitlines() if line.startswith("folkmoot: http")]
    refusal = "refused the key (401: Wrong: Authorization: Bearer …)"
    assert sum(refusal in line for line in ends) == 2
    assert {asked["headers"]["Authorization"] for asked in scripted.requests} == {f"Bearer {KEY}"}
    assert not [body for body in scripted.bodies if holds_secret(json.dumps(body).encode())]
    assert "because of Bearer …" in json.dumps(scripted.bodies, ensure_ascii=False)


@pytest.mark.nightly
def test_keys_in_python_and_of_litellm_leave_none(place: Place, scripted: ScriptedServer) -> None:
    scripted.reply = repeating(scripted)
    place.run({"url": scripted.url, "key": KEY}, HOSTED_VLLM_API_KEY=KEY)
    assert {asked["headers"]["Authorization"] for asked in scripted.requests} == {f"Bearer {KEY}"}
    assert leaks(place.root) == []
    assert (place.root / "stdout").read_text().count("Authorization: Bearer …") == 3
    assert rows_of(place.work / "runs/failing") == []  # it waits for an endpoint that is down
    assert not any(row["error"] for row in rows_of(place.work / "runs/given"))
    assert "because of Bearer …" in (place.work / "runs/found-scripted/results.jsonl").read_text()
    for name in ("given", "failing", "refused", "found-scripted", "found-refused"):
        assert (place.work / "saved" / name / "program.json").exists()


@pytest.fixture
def repeating_store() -> Iterator[Server]:
    """A tracking server that refuses everything and repeats what it was sent."""

    def refuse(request: Any) -> tuple[int, dict[str, str], bytes]:
        words = f"Wrong: {request.headers.get('Authorization')} {request.path}"
        error = {"error_code": "PERMISSION_DENIED", "message": words}
        return 403, {"Content-Type": "application/json"}, json.dumps(error).encode()

    with Server(refuse) as server:
        yield server


@pytest.mark.nightly
def test_passwords_in_addresses_leave_no_trace(place, scripted, repeating_store):
    """Passwords in the addresses of LMs, of the tracking store and of storages, and in a query."""
    scripted.reply = repeating(scripted)
    user = f"me:{IN_URL}@"
    asked = lm(scripted, user=user)
    one = ["evaluate", "single:cot", "--data", "questions.jsonl"]
    tune = ["tune", "space.yaml", *FILES, *lm(scripted), "--trials", "2", "--out", "runs/tuned"]
    place.run(
        [
            [*one, *asked, "--traces", "1.0", "--record", "calls", "--out", "runs/user"],
            [*one, *lm(scripted, "refused", user=user)],
            [*one, "--lm", "openai/x", "--api-base", f"{scripted.url}?api_key={IN_URL}"],
            [*tune, "--storage", f"postgresql://{user}127.0.0.1:1/x?password={IN_URL}"],
            [*tune, "--storage", f"mysql://{user}127.0.0.1:1/x?password={IN_URL}"],
            [*tune, "--storage", f"mysql://{user}127.0.0.1:x"],
            [*tune, "--storage", f"sqlite:////nowhere/study.db?password={IN_URL}"],
            ["doctor", *asked],
        ],
        MLFLOW_TRACKING_URI=repeating_store.origin.replace("//", f"//{user}"),
        MLFLOW_HTTP_REQUEST_MAX_RETRIES="1",
    )
    # the query is part of the LM's address and is sent to it
    assert place.codes == [0, 2, 0, 2, 2, 2, 2, 1]
    assert leaks(place.root) == []
    basic = f"Basic {base64.b64encode(f'me:{PASSWORD}'.encode()).decode()}"
    assert basic in {headers.get("authorization") for headers in repeating_store.headers}
    assert basic in {request["headers"].get("Authorization") for request in scripted.requests}
    assert not [body for body in scripted.bodies if holds_secret(json.dumps(body).encode())]
    rows = rows_of(place.work / "runs/user")
    texts = [turn["text"] for row in rows for turn in row["transcript"]]
    assert sum(text.startswith("because of Basic …") for text in texts) == 12
    (error,) = (row["error"] for row in rows if row["error"])
    assert error.count("Wrong: Authorization: Basic …") == 1
    assert (place.root / "stderr").read_text().count("the storage") == 3
