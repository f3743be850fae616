"""The authority's way to say no."""

from __future__ import annotations


class RefusedError(Exception):
    """A request the authority does not answer; the message is safe to hand back.

    Args:
        message: for people.
        code: for programs, where they must tell this refusal from others.
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code
