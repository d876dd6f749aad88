"""What all else stands on: errors, calls and their bills, the event loop, quoting, files, caches, spaces."""
