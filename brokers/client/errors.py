"""What can go wrong for a publisher or subscriber: one tree.

ClientError
    ProfileError        the profile folder is missing, wrong or in use
    BufferFull          no more events can be kept; slow down
    Refused             an agent said no, or nothing was heard in time
        NotReady        no policy, no home agent or no connection yet
        TimedOut        no answer in time; whether it was accepted is not known
        NotAuthorised   no policy permits it, or the right was taken away
        BadRequest      the type, a value or the filter does not fit the domain
        TooOften        the policy's limit is used up; it says when there is room again
"""

from __future__ import annotations

from typing import Final

from brokers.data.reasons import TOO_OFTEN
from policyengine.errors import RejectedError


class ClientError(Exception):
    """Base of everything that the client's library raises on purpose."""


class ProfileError(ClientError):
    """A profile folder is missing, wrong, or in use by another process."""


class BufferFull(ClientError):
    """As many events wait as may: publish again when some of them have been accepted.

    Args:
        message: what is full, and how much fits.
    """


class Refused(RejectedError, ClientError):
    """An agent refused, or nothing was heard in time.

    Args:
        reason: one word: an agent's (`not-authorised`, `unknown-type`, ...) or `timeout`
            (whether it was accepted is not known), `not-ready`, `no-home`.
        message: the same for a person.
    """


class NotReady(Refused):
    """`not-ready` or `no-home`: nothing was sent; it may work a moment later."""


class TimedOut(Refused):
    """`timeout`: no answer in time; it may still be accepted."""


class NotAuthorised(Refused):
    """`not-authorised`, `revoked`, `unknown-publisher` or `unknown-client`."""


class BadRequest(Refused):
    """`unknown-type`, `malformed`, `invalid-filter`: asking again will not help."""


class TooOften(Refused):
    """`too-often`: as much was published as the policy permits in a span of time.

    Args:
        reason: `too-often`.
        message: what the limit is, and when it may be tried again.
        again: Unix time in seconds, by the lease's signed time, from which it may be.
    """

    def __init__(self, reason: str, message: str, again: float = 0.0) -> None:
        super().__init__(reason, message)
        self.again = again


_CLASSES: Final[dict[str, type[Refused]]] = {
    "not-ready": NotReady,
    "no-home": NotReady,
    "timeout": TimedOut,
    "not-authorised": NotAuthorised,
    "revoked": NotAuthorised,
    "unknown-publisher": NotAuthorised,
    "unknown-client": NotAuthorised,
    "unknown-type": BadRequest,
    "malformed": BadRequest,
    "invalid-filter": BadRequest,
}


def refusal(reason: str, message: str, again: float = 0.0) -> Refused:
    """The exception for a reason; one that is not known here is a plain `Refused`.

    Args:
        reason: one word.
        message: the same for a person.
        again: Unix time in seconds from which it may be tried again, for `too-often`.
    """
    if reason == TOO_OFTEN:
        return TooOften(reason, message, again)
    return _CLASSES.get(reason, Refused)(reason, message)
