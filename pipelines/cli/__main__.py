"""The command line as `python -m folkmoot.pipelines.cli`."""

from .app import main

main()
