"""What all other code uses: errors, LM calls and their bills, the event loop, quoting, files,
caches, search spaces.
"""
