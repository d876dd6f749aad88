"""Tools for tests of a protocol: the contract that every protocol keeps, and a scripted LM."""
