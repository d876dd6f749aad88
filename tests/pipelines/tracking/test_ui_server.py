"""The page that `folkmoot ui` names: a shared view of MLflow's table of runs."""

import json
from pathlib import Path
from typing import Any

import mlflow
import pytest
from aiohttp import web

from folkmoot.pipelines.testing.server import LoopbackServer
from folkmoot.pipelines.tracking.ui_server import (
    CARDS,
    VIEW_KEY,
    VIEW_TAG,
    newest_runs,
    shared_view,
)


def test_mlflows_page_knows_the_view() -> None:
    scripts = Path(mlflow.__file__).parent / "server" / "js" / "build" / "static" / "js"
    (page,) = scripts.glob("main.*.js")
    text = page.read_text(encoding="utf-8", errors="replace")
    missing = [name for name in (VIEW_TAG, VIEW_KEY, *shared_view()) if f'"{name}"' not in text]
    missing += [card["type"] for card in CARDS if f'"{card["type"]}"' not in text]
    fields = {field for card in CARDS for field in card}
    missing += [name for name in fields if f"this.{name}=" not in text]
    missing += [group for group in CARDS[0]["compareGroups"] if f'="{group}"' not in text]
    # The page takes the parts that it knows; MLflow 3.14 knows no widths.
    if mlflow.__version__.startswith("3.14."):
        missing.remove("columnWidths")
    assert not missing, f"MLflow {mlflow.__version__} has another shape of shared views: {missing}"


@pytest.mark.parametrize("status", [200, 403])
def test_the_ui_opens_on_scores_and_bill(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []

    async def search(request: web.Request) -> web.Response:
        return web.json_response({"experiments": [{"experiment_id": "7"}]})

    async def tag(request: web.Request) -> web.Response:
        sent.append(await request.json())
        return web.json_response({}, status=status)

    root = "/api/2.0/mlflow/experiments"
    routes = [web.post(f"{root}/search", search), web.post(f"{root}/set-experiment-tag", tag)]
    with LoopbackServer(*routes) as server:
        address = f"http://127.0.0.1:{server.port}"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        page = newest_runs(address)
    opened = "?viewStateShareKey=folkmoot" if status == 200 else ""
    assert page.removeprefix(address) == f"/#/experiments/7/runs{opened}"
    (asked,) = sent
    assert (asked["experiment_id"], asked["key"]) == ("7", "mlflow.sharedViewState.folkmoot")
    assert json.loads(asked["value"]) == shared_view()
