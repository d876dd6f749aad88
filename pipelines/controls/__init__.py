"""Controls: where a recorded team's gain comes from (votes, second thoughts, or what peers say)."""
