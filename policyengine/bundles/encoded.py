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
    Integer,
    ListOf,
    Nested,
    Optional,
    Record,
    invalid,
)
from policyengine.trustgroups.epochs import STATES

_ENCODING = Binary(1, 2**20)
_NAMES = ListOf(LABEL, 1024, unique=True)
ACTIONS = ("publish", "subscribe")


MAX_LIMIT_COUNT = 1_000
MAX_LIMIT_SECONDS = 31 * 86_400


@dataclass(frozen=True)
class RateLimit(Record):
    """How often a policy lets each publisher publish (paper 002, section 4.2).

    Args:
        name: what shares the limit: all rules of one policy, through whatever agreement.
        count: most events of one publisher, from 1 to 1,000.
        seconds: in any span of this length, from 1 to 31 days.
    """

    name: Annotated[str, LABEL]
    count: Annotated[int, Integer(1, MAX_LIMIT_COUNT)]
    seconds: Annotated[int, Integer(1, MAX_LIMIT_SECONDS)]


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
        suppresses: attributes whose place is kept where nothing permits them: another rule
            of the policy has them under a condition (paper 002, section 4.2).
        lowers: None for a rule that permits; otherwise it only lets an event of the type be
            published as one of a super-type without these attributes, or, where there is
            none, with `attributes` alone.
        proof: tags of `event_tags`' predicates under the epoch's `proof_key`, as far as the
            agent sees the values: it checks them against the values of a publication.
        until: seconds since 1970 from which the rule holds no more, whether or not a newer
            bundle has come; 0 for a rule whose end is not known.
        limit: how often it lets each publisher publish; None for as often as it likes.
    """

    id: Annotated[str, LABEL]
    policy: Annotated[str, LABEL]
    action: Annotated[str, Choice(ACTIONS)]
    type: Annotated[str, LABEL]
    event_tags: Annotated[tuple[bytes, ...], TAGS]
    encoded: Annotated[bytes, _ENCODING]
    attributes: Annotated[tuple[str, ...] | None, Optional(ListOf(LABEL, 1024, unique=True))]
    suppresses: Annotated[tuple[str, ...], _NAMES] = ()
    lowers: Annotated[tuple[str, ...] | None, Optional(_NAMES)] = None
    proof: Annotated[tuple[bytes, ...], TAGS] = ()
    until: Annotated[int, UINT] = 0
    limit: Annotated[RateLimit | None, Optional(Nested(RateLimit))] = None

    def _agree(self) -> None:
        if self.action != "publish" and self.limit is not None:
            raise invalid("limit", "must be left out of a rule that does not publish")
        if self.action != "publish" and (self.lowers is not None or self.proof):
            raise invalid("action", "must be `publish` for a rule that lowers or proves")


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
        proof_key: 32 bytes that `EncodedRule.proof` is made under, or empty where no rule
            has one. It is no routing tag's key: with it nothing can be told of an event
            whose values the agent does not see.
        predicates: what values are tested for to make them, beside equality.
    """

    epoch: Annotated[int, UINT]
    state: Annotated[str, Choice(STATES)]
    parameters: Annotated[Mapping[str, Any], Document()]
    rules: Annotated[tuple[EncodedRule, ...], ListOf(Nested(EncodedRule))]
    subjects: Annotated[tuple[EncodedSubject, ...], ListOf(Nested(EncodedSubject))]
    proof_key: Annotated[bytes, Binary(0, 32)] = b""
    predicates: Annotated[tuple[Mapping[str, Any], ...], ListOf(Document(), 65_536)] = ()

    def _agree(self) -> None:
        if len({rule.id for rule in self.rules}) != len(self.rules):
            raise invalid("rules", "must not repeat an identifier")
        if len({subject.handle for subject in self.subjects}) != len(self.subjects):
            raise invalid("subjects", "must not repeat a handle")
        if len(self.proof_key) not in (0, 32):
            raise invalid("proof_key", "must be empty or 32 bytes")
        if not self.proof_key and any(rule.proof for rule in self.rules):
            raise invalid("proof_key", "must be there where a rule has a proof")
