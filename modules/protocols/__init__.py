"""The protocols: one program a file or folder, and what all of them share."""
