"""Questions: known data sets and users' files, read and checked before any money is spent."""
