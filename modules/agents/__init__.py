"""One agent: what it is told, how its LM is asked, and how its reply is read."""
