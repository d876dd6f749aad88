"""What the four papers published, as rows that can be run; read by `pipelines/reproduce_presets.py`."""
