"""`folkmoot ui`: MLflow's own UI on the store that runs are tracked in, as long as the command
runs.
"""

from __future__ import annotations

from ..tracking.store import store_uri
from ..tracking.ui_server import newest_runs, serve
from ..tracking.values import masked
from .guard import results, say
from .options import UiRequest, View
from .show import console, print_json


def ui(options: UiRequest, view: View) -> None:
    uri = store_uri()

    def ready(address: str) -> None:
        if view.as_json:
            print_json({"url": address, "store": masked(uri)})
        else:
            console().print(
                f"{newest_runs(address)} shows {masked(uri)}; Ctrl-C ends it", soft_wrap=True
            )
        results().flush()

    if uri.startswith(("http://", "https://")):
        ready(masked(uri))  # a server runs there already
        return
    say("starting MLflow's UI, which takes some seconds")
    serve(uri, options.host, options.port, ready)
