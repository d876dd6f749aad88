"""What one agent is told that plays a whole team within one reply."""

ONE_CONTEXT = """Write down the discussion that the speakers below would have about the question,
each of them in turn, in {rounds}. Then weigh what was said and give the answer that it supports.

{speakers}"""
