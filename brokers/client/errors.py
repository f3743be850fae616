"""What can go wrong for a publisher or subscriber."""

from __future__ import annotations

from policyengine.errors import RejectedError


class Refused(RejectedError):
    """An agent refused, or nothing was heard in time.

    Args:
        reason: one word: an agent's (`not-authorised`, `unknown-type`, ...) or `timeout`
            (whether it was accepted is not known), `not-ready`, `no-home`.
        message: the same for a person.
    """


class ProfileError(Exception):
    """A profile folder is missing, wrong, or in use by another process."""
