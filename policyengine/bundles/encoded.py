"""The encoded half of a bundle: what an agent matches without being able to read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from policyengine.bundles.limits import TAGS
from policyengine.primitives.records import (
    IDENTIFIER,
    LABEL,
    UINT,
    Binary,
    Choice,
    Document,
    ListOf,
    Nested,
    Optional,
    Record,
    invalid,
)
from policyengine.trustgroups.epochs import STATES

_ENCODING = Binary(1, 2**20)
ACTIONS = ("publish", "subscribe")


@dataclass(frozen=True)
class EncodedRule(Record):
    """One conjunction of a policy, encoded for one agent and epoch.

    Args:
        id: identifier of the conjunction within the domain.
        policy: the policy that it comes from.
        action: `publish` or `subscribe`.
        type: event type; the rule holds for its sub-tree.
        event_tags: routing tags (16 bytes each) that an event's part must all bear;
            empty: holds for every value.
        encoded: the encoding of the subject's side, made by `anonset`.
        attributes: names that the rule permits, or None for all.
    """

    id: Annotated[str, LABEL]
    policy: Annotated[str, LABEL]
    action: Annotated[str, Choice(ACTIONS)]
    type: Annotated[str, LABEL]
    event_tags: Annotated[tuple[bytes, ...], TAGS]
    encoded: Annotated[bytes, _ENCODING]
    attributes: Annotated[tuple[str, ...] | None, Optional(ListOf(LABEL, 1024, unique=True))]


@dataclass(frozen=True)
class EncodedSubject(Record):
    """A client's attributes, encoded for one agent and epoch.

    Args:
        handle: the client's pseudonym.
        encoded: one encoding for each conjunction that holds of the client.
    """

    handle: Annotated[str, IDENTIFIER]
    encoded: Annotated[tuple[bytes, ...], ListOf(_ENCODING, 4096)]


@dataclass(frozen=True)
class EpochContent(Record):
    """Everything that an agent matches in one encoding epoch.

    Args:
        epoch: its number.
        state: staged, current, draining or retired.
        parameters: the encoding's parameters as `anonset` writes them.
        rules: identifiers are unique.
        subjects: handles are unique.
    """

    epoch: Annotated[int, UINT]
    state: Annotated[str, Choice(STATES)]
    parameters: Annotated[Mapping[str, Any], Document()]
    rules: Annotated[tuple[EncodedRule, ...], ListOf(Nested(EncodedRule))]
    subjects: Annotated[tuple[EncodedSubject, ...], ListOf(Nested(EncodedSubject))]

    def _agree(self) -> None:
        if len({rule.id for rule in self.rules}) != len(self.rules):
            raise invalid("rules", "must not repeat an identifier")
        if len({subject.handle for subject in self.subjects}) != len(self.subjects):
            raise invalid("subjects", "must not repeat a handle")
