"""The shipped sample set and its checker."""
