"""What the four papers published, as rows that can be run; read by
`pipelines/reproduction/presets.py`.
"""
