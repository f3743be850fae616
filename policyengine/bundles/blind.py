"""What agents and clients hold of the blind profiles: keys by epoch, and who may read what.

Keys stand here as the authority sealed them (`sealed`, see `authority_seals`), so that the
control plane that composes bundles never has them in clear; opening a bundle opens them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from policyengine.attributes import Literal, Value, literal_token
from policyengine.blind import ReadPolicy
from policyengine.errors import DecodeError
from policyengine.primitives.records import (
    IDENTIFIER,
    LABEL,
    UINT,
    WRITTEN,
    Binary,
    Boolean,
    Choice,
    Document,
    ListOf,
    MapOf,
    Nested,
    Record,
    Text,
    invalid,
)
from policyengine.trustgroups.epochs import STATES

_TOKEN = Text(None, 65_536)
_SECRET = Binary(1, 2**21)
_MAX_TERMS = 4096


@dataclass(frozen=True)
class ReadTerm(Record):
    """One way to be allowed to read an attribute.

    Args:
        subject: tokens that a reader needs, all of them.
        event: tests that the event must pass, as `attributes.Literal` writes them.
        joins: pairs of a reader's attribute and the event's that it must equal.
    """

    subject: Annotated[tuple[str, ...], ListOf(_TOKEN, 1024, unique=True)]
    event: Annotated[tuple[Mapping[str, Any], ...], ListOf(Document(), 1024)] = field(
        default=(), metadata=WRITTEN
    )
    joins: Annotated[tuple[tuple[str, str], ...], ListOf(ListOf(LABEL, 2), 64)] = field(
        default=(), metadata=WRITTEN
    )

    def _agree(self) -> None:
        if any(len(pair) != 2 for pair in self.joins):
            raise invalid("joins", "must have pairs of attributes")
        try:
            tests = tuple(Literal.from_json(each) for each in self.event)
        except DecodeError as error:
            raise invalid("event", f"must have tests: {error}") from error
        object.__setattr__(self, "_tests", tests)

    def tokens(self, values: Mapping[str, Value]) -> frozenset[str] | None:
        """The tokens that a reader of an event with these values needs; None: nobody reads.

        Args:
            values: the event's attributes by full name (`event.<name>`).
        """
        tests: tuple[Literal, ...] = self.__dict__["_tests"]
        if not all(test.holds(values) for test in tests):
            return None
        if any(right not in values for _, right in self.joins):
            return None
        joined = {literal_token(Literal(left, "==", values[right])) for left, right in self.joins}
        return frozenset(self.subject) | joined


ReadPolicies = Mapping[str, Mapping[str, tuple[ReadTerm, ...]]]
"""Event type -> attribute -> the ways to be allowed to read it, any of which is enough."""

READ_POLICIES = MapOf(LABEL, MapOf(LABEL, ListOf(Nested(ReadTerm), _MAX_TERMS), 1024), 4096)


def read_policy(terms: Iterable[ReadTerm], values: Mapping[str, Value]) -> ReadPolicy:
    """Return the policy that an event's attribute is sealed under: who may read *this* one.

    Rules by value that no agent could check without reading are met here, where the values are
    known: what they do not allow is not encrypted for anybody (paper 002, section 4.2, enforced
    as paper 001, section 5.2, step 1, allows).

    Args:
        terms: of the attribute, from the bundle.
        values: the event's values by the attributes' own names; all of the event.

    Raises:
        InputError: `too-large` for more alternatives or tokens than a policy has.
    """
    named = {f"event.{name}": value for name, value in values.items()}
    found = (term.tokens(named) for term in terms)
    return ReadPolicy.of(tokens for tokens in found if tokens is not None)


@dataclass(frozen=True)
class BlindAgentEpoch(Record):
    """A blind epoch at an agent.

    Args:
        epoch: its number.
        state: the epoch's state.
        public: `blind.BlindPublic`.
        shares: handle of a client at home here -> its `blind.AgentShare`.
        sealed: whether the shares are sealed by the authority; never after opening.
    """

    epoch: Annotated[int, UINT]
    state: Annotated[str, Choice(STATES)]
    public: Annotated[bytes, Binary(1, 65_536)]
    shares: Annotated[Mapping[str, bytes], MapOf(IDENTIFIER, _SECRET)] = field(repr=False)
    sealed: Annotated[bool, Boolean()] = False


@dataclass(frozen=True)
class BlindClientEpoch(Record):
    """A blind epoch at a client.

    Args:
        epoch: its number.
        state: the epoch's state; publishers make new events in the current one.
        public: `blind.BlindPublic`.
        keys: `blind.ClientKeys`.
        read_policies: of what the client may publish, for whom each attribute is sealed.
        sealed: whether the keys are sealed by the authority; never after opening.
    """

    epoch: Annotated[int, UINT]
    state: Annotated[str, Choice(STATES)]
    public: Annotated[bytes, Binary(1, 65_536)]
    keys: Annotated[bytes, _SECRET] = field(repr=False)
    read_policies: Annotated[ReadPolicies, READ_POLICIES] = field(
        default_factory=dict, metadata=WRITTEN
    )
    sealed: Annotated[bool, Boolean()] = False


@dataclass(frozen=True)
class OrderKey(Record):
    """The key of one order-preserving attribute in one epoch; clients' and the comparator's.

    Args:
        type: the event type that declares the attribute.
        attribute: its name.
        epoch: number of the blind epoch.
        state: the epoch's state.
        key: bytes of `ope.RangeKey` at a client, of `ope.ComparatorKey` at the comparator.
        sealed: whether the key is sealed by the authority; never after opening.
    """

    type: Annotated[str, LABEL]
    attribute: Annotated[str, LABEL]
    epoch: Annotated[int, UINT]
    state: Annotated[str, Choice(STATES)]
    key: Annotated[bytes, Binary(32, 2048)] = field(repr=False)
    sealed: Annotated[bool, Boolean()] = False
