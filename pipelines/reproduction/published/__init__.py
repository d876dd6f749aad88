"""The results of the four papers, as rows that can be run; read by
`pipelines/reproduction/presets.py`.
"""
