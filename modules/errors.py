"""The one error that a user is meant to read."""


class UserError(ValueError):
    """Something the user can put right; the message is one sentence: what, where, what to do.

    The command line prints the message alone and exits with code 2.
    """
