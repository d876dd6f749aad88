"""Files of YAML that come with this package."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml


def shipped_yaml(package: str, name: str) -> Any:
    """Return what a file beside the modules of a package holds."""
    text = (files(package) / name).read_text(encoding="utf-8")
    # libyaml reads it ten times as fast, where PyYAML was built with it.
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
