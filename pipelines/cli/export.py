"""`folkmoot export`: runs as logs of other tools."""

from __future__ import annotations

from ..logs.export_log import export_log
from .options import ExportRequest, View
from .show import console, finish, show_result


def export(options: ExportRequest, view: View) -> None:
    logs = list(map(str, export_log(options.runs, options.out, options.format)))
    told = {"out": str(options.out), "format": options.format, "logs": logs}
    lines = {"format": options.format, **{f"log {place}": log for place, log in enumerate(logs, 1)}}
    finish(view, told, lambda: show_result(console(), "export", lines))
