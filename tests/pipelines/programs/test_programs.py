"""Programs by short spec, YAML file and `--set`: what they build and refuse in a sentence."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from outcome_tables import embed_words

import folkmoot as fm
from folkmoot.modules.protocols.declaration import Protocol
from folkmoot.modules.protocols.registry import PROTOCOLS, written
from folkmoot.pipelines.data.embeddings import Embedder
from folkmoot.pipelines.evaluation.request import EvaluateRequest
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.programs.seats import parse_sets

TALKERS = ["intuitive", "retriever", "reasoner"]
SPECS = {
    "single": fm.SingleAgent(),
    "single:cot": fm.SingleAgent("cot"),
    "single:role=intuitive": fm.SingleAgent(role="intuitive"),
    "ensemble:simple,cot:majority": fm.Ensemble(["simple", "cot"]),
    "ensemble:cot,cot:weighted": fm.Ensemble(["cot", "cot"], "weighted"),
    "deliberation:intuitive,reasoner:judge": fm.Deliberation(["intuitive", "reasoner"]),
    "deliberation:critic,reasoner:majority": fm.Deliberation(["critic", "reasoner"], "majority"),
}
SPECS[f"deliberation:{','.join(TALKERS)}:strongest=intuitive"] = fm.Deliberation(
    TALKERS, "strongest:intuitive"
)


@pytest.mark.parametrize(("spec", "same"), SPECS.items())
def test_short_specs(spec: str, same: Any) -> None:
    built = program_of(spec)
    assert type(built) is type(same)
    assert built.describe() == same.describe()
    assert re.fullmatch(r"\w+\([\w.]+(, [\w.]+)*\)", repr(built))


@pytest.mark.parametrize(
    ("source", "sets", "words"),
    [
        ("", {}, "no program or file ''.*deliberation"),
        ("singel:cot", {}, "did you mean 'single'.*ensemble"),
        ("openai/gpt-4o-mini", {}, "is an LM, and a program is missing"),
        ("single:CoT", {}, "no strategy 'CoT'.*did you mean 'cot'"),
        ("ensemble", {}, "ensemble needs members.*ensemble:simple,cot:majority"),
        ("deliberation:intuitive:strongest=critic", {}, "'critic' does not take part"),
        ("no/such.yaml", {}, r"no/such.yaml cannot be read"),
        ("stopped/winner", {}, "stopped has no program yet: run its folkmoot try to the end"),
        ("deliberation:intuitive", {"max_round": 2}, "no parameter 'max_round'.*'max_rounds'"),
        ("deliberation:intuitive", {"lms": {}}, "no parameter 'lms'"),
        ("single:cot", {"sampling": {"temprature": 1}}, "did you mean 'temperature'"),
        ("single:cot", {"temperature": 0}, "a setting of the LM: give --lm-set temperature=VALUE"),
        ("single:cot", {"judge.top_p": 1}, "give --lm-set judge.top_p=VALUE"),
        ("deliberation:retriever", {"environment": "web"}, "no environment 'web'.*corpus:PATH"),
        ("deliberation:retriever", {"environment": "corpus:none.jsonl"}, "none.jsonl"),
        ("single:cot", {"role": "critic"}, "not both"),
        ("ensemble:simple,cot", {"weights": [1]}, "1 weights for 2 members"),
        ("ensemble:simple,cot", {"weights": [0, float("inf")]}, "at least 0"),
        ("deliberation", {"roles": []}, "needs roles"),
        ("deliberation:critic,critic", {}, "'critic' appears more than once"),
        ("deliberation:critic:coin", {}, "no tie-break 'coin'"),
        ("deliberation:critic:strongest", {}, "strongest needs an agent: .* strongest:critic"),
        ("deliberation:critic", {"max_rounds": 0}, "max_rounds is 0.*at least 1"),
        ("causal", {"th1": float("nan")}, "th1 is nan"),
        ("causal", {"without": ["answer"]}, "no component 'answer'.*non_causal"),
        ("causal", {"demonstration": "csqa"}, "no worked demonstration 'csqa'.*scienceqa"),
        ("team:bold", {}, "corpus:PATH"),
        ("- cot\n", {}, "holds no program"),
        ("roles: [intuitive]\n", {}, "does not say which program"),
        ("program: single\nrole: critic\nrole: reasoner\n", {}, "line 3.*'role' is given twice"),
        ("program: [\n", {}, "line 2"),
        ("program: single\n? [role]\n: critic\n", {}, "line 2: found unhashable key"),
        ("program: single\nstrategie: cot\n", {}, "'strategie'.*did you mean 'strategy'"),
        ("program: single\nlms: {judge: 3}\n", {}, "agent 'judge' is 3"),
        ("program: ensemble\nmembers: cot\n", {}, "needs a list of members"),
        ("program: !!python/object/apply:os.mkdir [made]\n", {}, "line 1"),
    ],
)
def test_what_is_wrong_with_a_spec_a_parameter_or_a_yaml_file_is_named(
    source, sets, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stopped").mkdir()
    (tmp_path / "stopped" / "contest.json").touch()
    with pytest.raises(fm.UserError, match=words) as caught:
        program_of(write(tmp_path, source) if "\n" in source else source, sets)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "made").exists()


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOLKMOOT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps({"title": "Soup", "text": "Soup stays warm in a flask."}) + "\n")
    return path


def protocol_of(name: str) -> Protocol:
    """The protocol of that name, also where an attached room has it."""
    protocol = PROTOCOLS.find(name)
    assert protocol is not None
    return protocol


def test_examples_are_specs(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embed_words(monkeypatch)
    monkeypatch.chdir(tmp_path)
    config = fm.NetworkConfig(agents=2, strategies=("simple", "cot"), hidden=2, heads=1, k=1)
    network = fm.StrategyNetwork.untrained(config, Embedder("planted"))
    network.save(protocol_of("network").example.partition(":")[2])
    for name in written():
        protocol = protocol_of(name)
        kind = fm.StrategyNetwork if name == "network" else protocol.program
        sets = {"environment": f"corpus:{corpus}"} if name == "team" else {}
        assert isinstance(program_of(protocol.example, sets), kind)


def write(folder: Path, text: str) -> Path:
    path = folder / "program.yaml"
    path.write_text(text)
    return path


def test_yaml_says_what_a_short_spec_says(tmp_path: Path) -> None:
    team = "program: deliberation\nroles: [intuitive, reasoner]\nmax_rounds: 2\n"
    path = write(tmp_path, f"{team}tie_break: strongest:reasoner\n")
    same = program_of("deliberation:intuitive,reasoner:strongest=reasoner", {"max_rounds": 2})
    assert program_of(path).describe() == program_of(str(path)).describe() == same.describe()
    assert program_of(path, {"max_rounds": 1}).describe()["max_rounds"] == 1


def test_members_are_specs_of_any_form(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        program: ensemble
        members:
          - cot
          - single:role=critic
          - {program: deliberation, roles: [intuitive], max_rounds: 1}
        weights: [1, 2, 0.5]
        vote: weighted
        """,
    )
    members = ["cot", fm.SingleAgent(role="critic"), fm.Deliberation(["intuitive"], max_rounds=1)]
    assert program_of(path).describe() == fm.Ensemble(members, "weighted", [1, 2, 0.5]).describe()


def test_lms_are_made_for_their_seats(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        program: deliberation:intuitive,reasoner
        lms:
          judge: openai/big
          reasoner: {name: openai/small, temperature: 0.5}
        """,
    )
    made: list[tuple[str, dict[str, Any]]] = []

    def make(name: str, **settings: Any) -> fm.lm:
        made.append((name, settings))
        return fm.lm(name, api_base="http://127.0.0.1:1/v1", **settings)

    seats = program_of(path, make_lm=make).seats()
    assert made == [("openai/big", {}), ("openai/small", {"temperature": 0.5})]
    assert seats["judge"].predict.lm.model == "openai/big"
    assert seats["reasoner"].predict.lm.kwargs["temperature"] == 0.5
    assert seats["intuitive"].predict.lm is None


def test_one_text_stands_for_a_list_of_one() -> None:
    given = {"price": "openai/m=1,2", "show": "topic", "pass_env": "TOKEN", "sets": "a=1"}
    asked = EvaluateRequest("single:cot", "questions.jsonl", **given)
    assert asked.named(*given) == {name: [text] for name, text in given.items()}


def test_set_values_as_people_write_them() -> None:
    pairs = ["rounds=2", "rate=1e-3", "on=true"]
    pairs += ["roles=[intuitive, critic]", "env=corpus:a=b.jsonl"]
    read = {"rounds": 2, "rate": 0.001, "on": True, "roles": ["intuitive", "critic"]}
    assert parse_sets(pairs) == {**read, "env": "corpus:a=b.jsonl"}


@pytest.mark.parametrize("pairs", [["max_rounds"], ["=2"], ["a=[1"], ["a=1", "a=2"]])
def test_set_refuses_what_is_no_pair(pairs: list[str]) -> None:
    with pytest.raises(fm.UserError, match="--set"):
        parse_sets(pairs)
