"""What everything else stands on: errors, LM-call accounts, the event loop, quoting, search spaces."""
