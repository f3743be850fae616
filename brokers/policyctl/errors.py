"""How the program ends."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes; scripts stand on them."""

    OK = 0  # done, or nothing to do
    ERROR = 1  # wrong usage, wrong input, or the server failed
    PENDING = 2  # plan: there are changes to be made
    REFUSED = 3  # not allowed to, or explain: the answer is no
    WAITING = 4  # kept as a change set that a second person decides
    SIGNED_OUT = 5  # no token, or one that is not valid
    STALE = 6  # it was changed in the meantime
    UNREACHABLE = 7  # the server does not answer; publish, subscribe: no agent did
    FEWER = 8  # subscribe: fewer events came than were asked for


class Stop(Exception):
    """Ends the program.

    Args:
        code: its exit code.
        message: why, in one line.
        details: further lines.
    """

    def __init__(self, code: Exit, message: str, details: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = tuple(details)
