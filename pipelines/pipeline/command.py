"""`folkmoot pipeline`: one file from data to a registered winner."""

from __future__ import annotations

from pathlib import Path

from ..cli.command import Command
from ..cli.guard import results
from .request import PipelineRequest, PipelineView


def run(request: PipelineRequest, view: PipelineView) -> None:
    from ..cli.life import live
    from .pipeline import carry_out_pipeline, pipeline_in
    from .plan import plan_pipeline

    if view.new:
        text = (Path(__file__).parent / "new.yaml").read_text(encoding="utf-8")
        print(text, end="", file=results())
    else:
        plan = plan_pipeline(request, stored=True)
        live(plan.request, view, plan, carry_out_pipeline, pipeline_in)


COMMAND = Command(PipelineRequest, PipelineView, run)
