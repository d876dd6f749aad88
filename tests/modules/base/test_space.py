"""Search spaces: points, conditions, how protocols declare them and YAML files change them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import folkmoot as fm
from folkmoot.modules.base.space import coded, lists
from folkmoot.optimizers.structure.points import decoded, draw_setting, grid_settings, options
from folkmoot.optimizers.structure.search import grid, parameters_of
from folkmoot.pipelines.tuning.yaml_space import space_of


def points(space: Any) -> list[dict[str, Any]]:
    return list(grid_settings(lambda draw: draw_setting(space, draw)))


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=4))
def test_every_json_value_is_kept_by_a_distribution(value: Any) -> None:
    assert decoded(coded(value)) == value
    assert not isinstance(coded(value), list)


def test_lists_of_items() -> None:
    assert options(lists("ab", 1, 2).made()) == [["a"], ["b"], ["a", "b"], ["b", "a"]]
    assert options(lists("ab", 2, 2, ordered=False).made()) == [["a", "b"]]
    found = options(lists("ab", 2, 2, ordered=False, repeated=True).made())
    assert found == [["a", "a"], ["a", "b"], ["b", "b"]]
    assert len(options(lists("ab", 2, 3, repeated=True).made()) or ()) == 4 + 8
    with pytest.raises(ValueError, match="too many"):
        lists(range(20), 10)


@pytest.mark.parametrize("name", ["single", "deliberation", "ensemble", "causal"])
def test_every_declared_point_makes_a_program_and_the_default_is_one_of_them(name: str) -> None:
    space = space_of(name)
    cells = grid(space.point)
    default, program = space.default()
    assert default in cells
    assert type(space.program(default)) is type(program)
    for cell in cells[:: max(1, len(cells) // 12)]:
        space.program(cell)
        parameters_of(space.point, cell)


def test_null_leaves_a_value_to_the_program() -> None:
    space = space_of({"program": "single:cot", "sampling": {"temperature": [None, 0.5]}})
    made = [space.program(cell).describe()["sampling"] for cell in grid(space.point)]
    assert made == [{}, {"temperature": 0.5}]


def test_a_short_spec_fixes_its_part() -> None:
    cells = grid(space_of("deliberation:critic,reasoner:strongest=critic").point)
    assert {tuple(cell["roles"]) for cell in cells} == {("critic", "reasoner")}
    assert {cell["tie_break"] for cell in cells} == {"strongest=critic"}
    assert "strongest" not in cells[0]
    assert {cell["max_rounds"] for cell in cells} == {1, 2, 3}


def write(folder: Path, text: str) -> Path:
    path = folder / "space.yaml"
    path.write_text(text)
    return path


def test_yaml_fixes_narrows_widens_and_chooses(tmp_path: Path) -> None:
    space = space_of(
        write(
            tmp_path,
            """
program: deliberation
roles: [[critic, reasoner], [reasoner, critic]]
max_rounds: {from: 2, to: 6, step: 2}
tie_break: [judge, majority]
sampling: {temperature: 0.3, top_p: [0.5, 1.0]}
lms:
  judge: [local/gemma-3-270m, {name: local/gemma-3-270m, temperature: 0.5}]
  critic: local/gemma-3-270m
""",
        ),
        make_lm=lambda name, **rest: f"{name} {rest}",
    )
    cells = grid(space.point)
    assert {cell["max_rounds"] for cell in cells} == {2, 4, 6}
    assert len(cells) == 2 * 3 * (2 + 1) * 2
    assert all(("lms.judge" in cell) == (cell["tie_break"] == "judge") for cell in cells)
    assert all(cell["sampling.temperature"] == 0.3 for cell in cells)
    seated = space.program({**cells[0], "lms.judge": cells[1].get("lms.judge", "x")}).seats()
    assert seated["critic"].predict.lm == "local/gemma-3-270m {}"
    assert seated["reasoner"].predict.lm is None


def test_several_programs_and_a_saved_one(tmp_path: Path) -> None:
    fm.SingleAgent("cot").save(tmp_path / "saved")
    talk = "{program: deliberation, max_rounds: 1}"
    space = space_of(write(tmp_path, f"programs: [single:cot, {talk}, {tmp_path / 'saved'}]"))
    cells = grid(space.point)
    programs = {"single", "deliberation", str(tmp_path / "saved")}
    assert {cell["program"] for cell in cells} == programs
    assert not any(name.startswith("deliberation/") for name in cells[0])
    made = [type(space.program(cell)).__name__ for cell in (cells[0], cells[-1])]
    assert made == ["SingleAgent"] * 2


def test_set_fixes_a_parameter_in_the_programs_that_have_it() -> None:
    space = space_of({"programs": ["single:cot", "deliberation"]}, {"max_rounds": 2})
    assert {cell.get("deliberation/max_rounds") for cell in grid(space.point)} == {None, 2}
    with pytest.raises(fm.UserError, match=r"--set rounds: .* no such parameter: it has strategy"):
        space_of("single", {"rounds": 2})
    keyed = {"program": "single:cot", "lms": {"cot": [{"name": "openai/a", "api_key": "sk-x"}]}}
    with pytest.raises(fm.UserError, match=r"lms.cot has 'api_key', and a study writes") as said:
        space_of(keyed)
    assert "sk-x" not in str(said.value)


def test_the_program_of_a_space_may_stand_in_a_file_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "talk.yaml"
    file.write_text("program: deliberation\nroles: [intuitive, reasoner]\nmax_rounds: 3\n")
    (branch,) = space_of({"program": str(file), "max_rounds": [1, 2]}).branches
    assert options(branch.space["max_rounds"].values) == [1, 2]  # before what is in the file
    assert options(branch.space["roles"].values) == [["intuitive", "reasoner"]]
    file.write_text("program: deliberation\ntie_break: mine:rule\n")
    with pytest.raises(fm.UserError, match="the file names the tie-break mine:rule, which is code"):
        space_of({"program": str(file), "max_rounds": [1, 2]})
