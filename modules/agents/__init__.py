"""One agent: its prompt, the request to its LM, and the reading of its reply."""
