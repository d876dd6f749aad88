"""The contract of every protocol, as tests that your own protocols can run, too."""

from __future__ import annotations

from .learning import Learning
from .outcomes import OutcomeTests
from .runs import Runs


class ProtocolContract(OutcomeTests, Runs, Learning):
    """The checks that every protocol passes. In a test file:

        class TestMine(ProtocolContract):
            def program(self) -> Program:
                return MyProtocol()

    The program asks a scripted LM over real HTTP on loopback: nothing is paid, and no key is
    needed. Override `questions` for a protocol that does not take every kind of question. The test
    methods take no fixtures: pytest finds them, and anything else may call them.
    """
