"""One agent: its prompt, the request to its LM, and the parsing of its reply."""
