"""The engine's one tree of exceptions.

Messages are lower case without a full stop; what the person typed stands in
backticks. Failures of cryptography never say more than that they failed.
"""

from __future__ import annotations

from typing import Literal

ProblemKind = Literal["syntax", "type", "unknown", "too-large", "invalid", "unsupported"]


class PortcullisError(Exception):
    """Base of everything that the engine raises on purpose."""


class InputError(PortcullisError):
    """Input that cannot be accepted.

    Args:
        kind: what is wrong in one word, fit for a program.
        message: what is wrong and what was expected, fit for a person.
        at: position in the text (characters from 0), or None where there is no text.
        where: name of the field or object concerned, or None.
        suggestion: the nearest name that exists, or None.
    """

    def __init__(
        self,
        kind: ProblemKind,
        message: str,
        *,
        at: int | None = None,
        where: str | None = None,
        suggestion: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ProblemKind = kind
        self.message = message
        self.at = at
        self.where = where
        self.suggestion = suggestion


class DecodeError(PortcullisError):
    """Bytes that are not the canonical form of what they claim to be."""


class CryptographyError(PortcullisError):
    """Base of failed cryptographic checks."""


class SignatureError(CryptographyError):
    """A signature does not verify."""


class DecryptionError(CryptographyError):
    """A ciphertext does not open; all causes look alike."""


class RejectedError(PortcullisError):
    """A message, bundle or event was understood and refused.

    Args:
        reason: one word from the protocol (`rollback`, `expired`, `audience`, ...).
        message: the same for a person.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class GateError(PortcullisError):
    """The privacy gate refuses a protection.

    Args:
        reasons: one plain sentence each.
    """

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons
