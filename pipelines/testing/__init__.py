"""What tests of a protocol need: the contract that every protocol keeps, and a scripted LM on
loopback.
"""
