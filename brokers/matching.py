"""Who may, matched once: the rules of an encoding epoch against all of its subjects.

What costs happens when a bundle is taken into use and never per event: an event only looks up
tags and bits.

Source: PS-ACF (paper 000), Def. 7, computed once per (policy, subject) as a bitmap.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from bitarray import bitarray, frozenbitarray

from policyengine.anonset.batch import SubjectMatrix
from policyengine.anonset.parameters import Parameters
from policyengine.anonset.tags import tags
from policyengine.attributes import Predicate, Value, tokens_of
from policyengine.attributes.literals import Literal
from policyengine.bundles import EncodedRule, EncodedSubject, EpochContent, RateLimit
from policyengine.errors import DecodeError
from policyengine.events import EventTypes
from policyengine.trustgroups import EpochState

EVENT = "event."
"""How policies name an event's attributes."""
LOWER = "lower"
"""Action of rules by which a publication may become one of a super-type."""


@dataclass(frozen=True)
class Rule:
    """One rule of an epoch with everybody whom it authorises.

    Args:
        policy: name of the policy that it is a conjunction of.
        tags: routing tags (16 bytes each) that an event must carry, all of them.
        attributes: names that it permits, or None for all.
        authorised: bit i is set where client i of the epoch is authorised.
        suppresses: names whose place is kept where no rule permits them.
        lowers: names that a super-type must lack for the event to become one of it; None
            for a rule that permits.
        proof: what the values of a publication must prove, see `EpochPolicy.proofs`.
        until: Unix time from which it holds no more; 0 for one without an end.
        limit: how often it lets each publisher publish; None for as often as it likes.
    """

    policy: str
    tags: frozenset[bytes]
    attributes: frozenset[str] | None
    authorised: frozenbitarray
    suppresses: frozenset[str] = frozenset()
    lowers: frozenset[str] | None = None
    proof: frozenset[bytes] = frozenset()
    until: int = 0
    limit: RateLimit | None = None

    def holds(self, now: float) -> bool:
        """Whether it still holds at a moment, Unix time in seconds."""
        return not self.until or now < self.until


@dataclass(frozen=True)
class RuleIndex:
    """The rules of one action that hold for one event type, by tag.

    Args:
        always: rules without event tags.
        by_tag: rules with tags, each under one of its tags (the rarest).
    """

    always: tuple[Rule, ...]
    by_tag: Mapping[bytes, tuple[Rule, ...]]

    @property
    def tags(self) -> frozenset[bytes]:
        """Every tag that some rule asks for."""
        return frozenset(tag for rules in self.by_tag.values() for r in rules for tag in r.tags)

    def matching(self, tags: frozenset[bytes]) -> list[Rule]:
        """The rules whose event tags are all among `tags`."""
        found = list(self.always)
        for tag in tags:
            found.extend(rule for rule in self.by_tag.get(tag, ()) if rule.tags <= tags)
        return found


NO_RULES = RuleIndex((), {})


@dataclass(frozen=True)
class EpochPolicy:
    """Everything encoded in one epoch.

    Args:
        epoch: its number.
        state: `staged`, `current` or `draining`.
        positions: handle -> its bit in `Rule.authorised`.
        rules: (action, event type) -> the rules that hold for events of exactly that type.
        proof_key: see `EpochContent`; empty where nothing is to be proved.
        predicates: what values are tested for to prove something.
    """

    epoch: int
    state: EpochState
    positions: Mapping[str, int]
    rules: Mapping[tuple[str, str], RuleIndex]
    proof_key: bytes = field(default=b"", repr=False)
    predicates: tuple[Predicate, ...] = ()

    @cached_property
    def handles(self) -> tuple[str, ...]:
        """The clients in the order of their bits."""
        return tuple(sorted(self.positions, key=self.positions.__getitem__))

    def index(self, action: str, event_type: str) -> RuleIndex:
        """The rules of an action (`publish`, `lower`, `subscribe`) for an event type."""
        return self.rules.get((action, event_type), NO_RULES)

    def proofs(self, values: Mapping[str, Value]) -> frozenset[bytes] | None:
        """What an event's values prove, to be held against `Rule.proof`; None: all of it.

        Args:
            values: attribute name -> value, of the whole event.
        """
        if not self.proof_key:
            return None
        named = {EVENT + name: value for name, value in values.items()}
        return frozenset(tags(self.proof_key, tokens_of(named, self.predicates)))


def state_of(word: str) -> EpochState:
    """The state of an epoch that a bundle names.

    Raises:
        DecodeError: there is none of this name.
    """
    for state in ("staged", "current", "draining", "retired"):
        if word == state:
            return state
    raise DecodeError(f"`{word}` is no state of an epoch")


def build_epoch(content: EpochContent, types: EventTypes, names: Iterable[str]) -> EpochPolicy:
    """Match every rule of an epoch against every subject.

    Args:
        content: the epoch as the bundle has it.
        types: the domain's event types.
        names: all of their names.

    Raises:
        PortcullisError: the content contradicts itself.
    """
    handles = [subject.handle for subject in content.subjects]
    matrix = _Subjects(content.subjects, Parameters.from_json(content.parameters))
    rules = [(encoded, matrix.rule(encoded)) for encoded in content.rules]
    grouped: dict[tuple[str, str], list[Rule]] = defaultdict(list)
    for encoded, rule in rules:
        action = encoded.action if encoded.lowers is None else LOWER
        for name in types.subtree(encoded.type):
            grouped[action, name].append(rule)
    return EpochPolicy(
        epoch=content.epoch,
        state=state_of(content.state),
        positions={handle: position for position, handle in enumerate(handles)},
        rules={place: index_of(found) for place, found in grouped.items()},
        proof_key=content.proof_key,
        predicates=tuple(Literal.from_json(one) for one in content.predicates),
    )


class _Subjects:
    """All subjects of an epoch as one matrix; a subject may have several encodings."""

    def __init__(self, subjects: tuple[EncodedSubject, ...], parameters: Parameters) -> None:
        rows = [(i, encoded) for i, one in enumerate(subjects) for encoded in one.encoded]
        self._owners = [owner for owner, _ in rows]
        self._count = len(subjects)
        self._matrix = SubjectMatrix([encoded for _, encoded in rows], parameters)

    def rule(self, encoded: EncodedRule) -> Rule:
        # PS-ACF Def. 7, once for all subjects; any encoding that grants, grants its owner.
        granted = self._matrix.authorised(encoded.encoded)
        authorised = bitarray(self._count)
        authorised.setall(0)
        for row in granted.search(bitarray("1")):
            authorised[self._owners[row]] = 1
        return Rule(
            policy=encoded.policy,
            tags=frozenset(encoded.event_tags),
            attributes=None if encoded.attributes is None else frozenset(encoded.attributes),
            authorised=frozenbitarray(authorised),
            suppresses=frozenset(encoded.suppresses),
            lowers=None if encoded.lowers is None else frozenset(encoded.lowers),
            proof=frozenset(encoded.proof),
            until=encoded.until,
            limit=encoded.limit,
        )


def index_of(rules: list[Rule]) -> RuleIndex:
    """File rules by the rarest of their tags."""
    frequency = Counter(tag for rule in rules for tag in rule.tags)
    by_tag: dict[bytes, list[Rule]] = defaultdict(list)
    for rule in rules:
        if rule.tags:
            by_tag[min(rule.tags, key=lambda tag: (frequency[tag], tag))].append(rule)
    return RuleIndex(
        always=tuple(rule for rule in rules if not rule.tags),
        by_tag={tag: tuple(found) for tag, found in by_tag.items()},
    )
