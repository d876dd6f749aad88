"""The FastAPI file of docs/ship-it.md answers questions."""

import re
from pathlib import Path
from typing import Any

import pytest

import folkmoot as fm

PAGE = Path(fm.__file__).parent / "docs" / "ship-it.md"


def test_the_fastapi_file_answers(tmp_path, monkeypatch, scripted):
    pytest.importorskip("fastapi", reason="FastAPI is not a dependency")
    from fastapi.testclient import TestClient

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    fm.SingleAgent("simple").save("runs/contest/winner")
    code = re.findall(r"^```python\n(# app\.py\n.*?)^```", PAGE.read_text(), re.M | re.S)[0]
    assert len(code.splitlines()) - code.count("\n\n") <= 15
    names: dict[str, Any] = {}
    exec(compile(code, "app.py", "exec"), names)
    with TestClient(names["app"]) as client:
        asked = {"question": "Where do people keep money?", "choices": ["bank", "mall"]}
        reply = client.post("/answer", json=asked)
        assert reply.status_code == 200, reply.text
        assert reply.json()["answer"] == "A"
        assert client.post("/answer", json={}).status_code == 422
