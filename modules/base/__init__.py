"""The base of all rooms: errors, calls and their bills, the event loop, quoting, files, caches,
spaces.
"""
