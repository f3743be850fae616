"""How an attribute is protected, and the written acceptance of a risk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from policyengine.attributes import shown, unknown
from policyengine.errors import DecodeError, InputError

CLASSES: Final = ("identifying", "quasi-identifying", "confidential", "non-confidential")
"""Classes of the privacy assessment (paper 004, section 1)."""

ProtectionKind: TypeAlias = Literal["clear", "attribute key", "searchable", "order-preserving"]

CLEAR: Final = "clear"
ATTRIBUTE_KEY: Final = "attribute key"
SEARCHABLE: Final = "searchable"
ORDER_PRESERVING: Final = "order-preserving"
KINDS: Final = (CLEAR, ATTRIBUTE_KEY, SEARCHABLE, ORDER_PRESERVING)
"""What brokers match on: the value, the value under a key that some of them hold (paper
002), a searchable ciphertext (paper 001), an order-preserving one (paper 003)."""

_MAX_REASON: Final = 10_000
_MAX_NAME: Final = 400


def check_class(pia: str) -> None:
    """Refuse a class that does not exist.

    Raises:
        InputError: `unknown`, with the nearest class.
    """
    if pia not in CLASSES:
        raise unknown("class", pia, CLASSES, where="pia")


@dataclass(frozen=True, slots=True)
class Protection:
    """The protection of one attribute.

    Args:
        kind: what brokers match on, one of `KINDS`.
        sealed: whether the value itself travels encrypted by attributes, so that only
            subscribers whose keys allow it can read it.

    Raises:
        InputError: `unknown` for another kind; `invalid` for a sealed value that also
            travels in clear.
    """

    kind: ProtectionKind
    sealed: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("protection", str(self.kind), KINDS, where="kind")
        if self.kind == CLEAR and self.sealed:
            raise InputError(
                "invalid", "a value that travels in clear is not sealed", where="sealed"
            )

    def to_json(self) -> dict[str, object]:
        """Write every field by name."""
        return {"kind": self.kind, "sealed": self.sealed}

    @classmethod
    def from_json(cls, obj: object) -> Protection:
        """Read what `to_json` wrote, strictly.

        Raises:
            DecodeError: a field is missing, unknown or of the wrong type, or the
                protection contradicts itself.
        """
        if not isinstance(obj, Mapping) or set(obj) != {"kind", "sealed"}:
            raise DecodeError("a protection has exactly the fields of its version")
        kind, sealed = obj["kind"], obj["sealed"]
        if not isinstance(kind, str) or not isinstance(sealed, bool):
            raise DecodeError("a field of a protection has the wrong type")
        try:
            return cls(cast(ProtectionKind, kind), sealed)
        except InputError as error:
            raise DecodeError(error.message) from error


@dataclass(frozen=True, slots=True)
class RiskAcceptance:
    """Somebody's written word that a risk is taken, for one attribute and a while.

    It is tied to what was assessed: another attribute, class or kind of protection needs
    an acceptance of its own.

    Args:
        attribute: the attribute, as the caller names it when the gate is asked.
        pia: the class that it had.
        kind: the protection that is weaker than the class asks for.
        who: the person who accepts.
        why: the reason, in the person's words.
        until: seconds since 1970; from then on it holds no more.

    Raises:
        InputError: `invalid` where a field says nothing, `unknown` for a class or kind
            that does not exist, `too-large` for endless text.
    """

    attribute: str
    pia: str
    kind: ProtectionKind
    who: str
    why: str
    until: int

    def __post_init__(self) -> None:
        check_class(self.pia)
        if self.kind not in KINDS:
            raise unknown("protection", str(self.kind), KINDS, where="kind")
        texts = {"attribute": self.attribute, "who": self.who, "why": self.why}
        for field, text in texts.items():
            if not text.strip():
                raise InputError("invalid", f"an acceptance of risk says {field}", where=field)
            if len(text) > (_MAX_REASON if field == "why" else _MAX_NAME):
                raise InputError("too-large", "the text is too long", where=field)
        if self.until < 0:
            raise InputError("invalid", "a time is seconds since 1970", where="until")

    def covers(self, attribute: str, pia: str, kind: str) -> bool:
        """Tell whether this is about that attribute, class and protection."""
        return (self.attribute, self.pia, self.kind) == (attribute, pia, kind)

    def to_json(self) -> dict[str, object]:
        """Write every field by name."""
        return {
            "attribute": self.attribute,
            "pia": self.pia,
            "kind": self.kind,
            "who": self.who,
            "why": self.why,
            "until": self.until,
        }

    @classmethod
    def from_json(cls, obj: object) -> RiskAcceptance:
        """Read what `to_json` wrote, strictly.

        Raises:
            DecodeError: a field is missing, unknown, of the wrong type or says nothing.
        """
        fields = ("attribute", "pia", "kind", "who", "why")
        if not isinstance(obj, Mapping) or set(obj) != {*fields, "until"}:
            raise DecodeError("an acceptance of risk has exactly the fields of its version")
        until = obj["until"]
        if not all(isinstance(obj[field], str) for field in fields) or type(until) is not int:
            raise DecodeError("a field of an acceptance of risk has the wrong type")
        try:
            return cls(**obj)
        except InputError as error:
            raise DecodeError(error.message) from error

    def __str__(self) -> str:
        """Say it in a sentence."""
        return f"{shown(self.who)} accepts the risk: {shown(self.why)}"
