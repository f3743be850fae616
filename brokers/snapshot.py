"""The immutable policy in force at an agent: one snapshot a domain.

A snapshot is built once from a verified bundle and swapped in as a whole. What costs
(opening key wraps, matching every rule against every subject) happens here and never
per event: an event only looks up tags and bits.

Source: PS-ACF (paper 000), Def. 7, computed once per (policy, subject) as a bitmap.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bitarray import bitarray, frozenbitarray

from policyengine.anonset.batch import SubjectMatrix
from policyengine.anonset.parameters import Parameters
from policyengine.anonset.tags import tags
from policyengine.attributes import Predicate, Value, tokens_of
from policyengine.attributes.literals import Literal
from policyengine.blind import AgentShare, BlindPublic, Place
from policyengine.bundles import (
    AgentContent,
    AgentRef,
    BlindAgentEpoch,
    ClientRef,
    EncodedRule,
    EncodedSubject,
    EpochContent,
    OpenedBundle,
)
from policyengine.errors import DecodeError, PortcullisError, RejectedError
from policyengine.events import AttributeSpec, EventTypes, TypeSpec
from policyengine.primitives.hpke import SealingKey
from policyengine.trustgroups import EpochState, Wrap, may_open, may_seal, open_wrap

EVENT = "event."
"""How policies name an event's attributes."""
_KEY = "key:"
_OVERLAY = "overlay:"
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
    """

    policy: str
    tags: frozenset[bytes]
    attributes: frozenset[str] | None
    authorised: frozenbitarray
    suppresses: frozenset[str] = frozenset()
    lowers: frozenset[str] | None = None
    proof: frozenset[bytes] = frozenset()


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


@dataclass(frozen=True)
class GroupKey:
    """The key of a trust group in one epoch.

    Args:
        epoch: its number.
        state: says whether it may seal, open, or neither.
        key: 32 bytes; never shown.
    """

    epoch: int
    state: EpochState
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class BlindEpoch:
    """What an agent holds of one epoch of the blind profiles.

    Args:
        epoch: its number.
        state: `staged`, `current` or `draining`.
        public: what everybody may know.
        shares: handle of an own client -> the agent's share; never shown.
    """

    epoch: int
    state: EpochState
    public: BlindPublic
    shares: Mapping[str, AgentShare] = field(repr=False)


@dataclass(frozen=True)
class DomainSnapshot:
    """All that an agent enforces for one domain.

    Args:
        domain: name of the domain.
        revision: of the bundle in force.
        digest: of the bundle's header.
        agent: this agent's name.
        overlay: the overlay it stands on.
        lease_seconds: how long a lease of this domain lasts.
        notices_through: number of the last notice that the bundle already contains.
        types: event types with their inheritance resolved.
        specs: event type -> its attributes, inherited ones included.
        agents: all agents of the overlay, this one included.
        clients: own clients by handle.
        epochs: encoding epochs that are not retired, by number.
        attribute_keys: (key name, epoch) -> key.
        overlay_keys: epoch -> key of the hops between agents.
        denied: handles that notices have taken out since the bundle was made.
        blind: blind epochs that are not retired, by number.
        splits: event type -> attributes of the part of it that travels over this overlay; None
            where the bundle does not say which types are split.
    """

    domain: str
    revision: int
    digest: str
    agent: str
    overlay: str
    lease_seconds: int
    notices_through: int
    types: EventTypes
    specs: Mapping[str, tuple[AttributeSpec, ...]]
    agents: Mapping[str, AgentRef]
    clients: Mapping[str, ClientRef]
    epochs: Mapping[int, EpochPolicy]
    attribute_keys: Mapping[tuple[str, int], GroupKey] = field(repr=False)
    overlay_keys: Mapping[int, GroupKey] = field(repr=False)
    denied: frozenset[str] = frozenset()
    blind: Mapping[int, BlindEpoch] = field(default_factory=dict, repr=False)
    splits: Mapping[str, frozenset[str]] | None = None

    @property
    def peers(self) -> tuple[AgentRef, ...]:
        """The other agents of the overlay."""
        return tuple(ref for name, ref in self.agents.items() if name != self.agent)

    @property
    def newest_epoch(self) -> int:
        """The highest encoding epoch held, or -1."""
        return max(self.epochs, default=-1)

    def sealing_keys(self) -> dict[str, tuple[int, bytes]]:
        """Attribute keys that new ciphertexts use: key name -> (epoch, key)."""
        return {
            name: (epoch, held.key)
            for (name, epoch), held in self.attribute_keys.items()
            if may_seal(held.state)
        }

    def opening_keys(self) -> dict[tuple[str, int], bytes]:
        """Attribute keys that open: (key name, epoch) -> key."""
        return {
            place: held.key for place, held in self.attribute_keys.items() if may_open(held.state)
        }

    def sealing_overlay_key(self) -> GroupKey | None:
        """The key that new hops are sealed under, or None."""
        usable = [held for held in self.overlay_keys.values() if may_seal(held.state)]
        return max(usable, key=lambda held: held.epoch, default=None)

    def opening_overlay_keys(self) -> dict[int, bytes]:
        """Keys that open hops: epoch -> key."""
        return {e: held.key for e, held in self.overlay_keys.items() if may_open(held.state)}


def build_snapshot(
    opened: OpenedBundle, *, sealing_key: SealingKey, denied: Iterable[str] = ()
) -> DomainSnapshot:
    """Turn a verified bundle into what an agent enforces.

    Args:
        opened: the bundle, its signature and trusted state already checked.
        sealing_key: the agent's own key, for the key wraps.
        denied: handles that notices have taken out.

    Raises:
        RejectedError: `malformed`, where the content contradicts itself; nothing of it
            may be used then.
    """
    content = opened.content
    if not isinstance(content, AgentContent):
        raise RejectedError("malformed", "the bundle holds no content for an agent")
    try:
        return _build(opened, content, sealing_key, frozenset(denied))
    except RejectedError:
        raise
    except (PortcullisError, KeyError, ValueError, TypeError) as error:
        raise RejectedError("malformed", f"the bundle contradicts itself: {error}") from error


def _build(
    opened: OpenedBundle, content: AgentContent, sealing_key: SealingKey, denied: frozenset[str]
) -> DomainSnapshot:
    types = EventTypes([TypeSpec.from_json(spec) for spec in content.types])
    names = [str(spec["name"]) for spec in content.types]
    keys = _open_wraps(content.wraps, sealing_key, opened.header.audience)
    return DomainSnapshot(
        domain=content.domain,
        revision=opened.header.revision,
        digest=opened.digest,
        agent=content.agent,
        overlay=content.overlay,
        lease_seconds=content.lease_seconds,
        notices_through=content.notices_through,
        types=types,
        specs={name: tuple(types.attributes(name)) for name in names},
        agents={ref.name: ref for ref in content.agents},
        clients={ref.handle: ref for ref in content.clients},
        epochs={
            epoch.epoch: build_epoch(epoch, types, names)
            for epoch in content.epochs
            if may_open(epoch.state)
        },
        attribute_keys={
            (group.removeprefix(_KEY), held.epoch): held
            for group, held in keys
            if group.startswith(_KEY)
        },
        overlay_keys={
            held.epoch: held for group, held in keys if group == _OVERLAY + content.overlay
        },
        denied=denied,
        blind=_build_blind(content),
        splits=_splits(content),
    )


def _build_blind(content: AgentContent) -> dict[int, BlindEpoch]:
    return {
        each.epoch: _blind_epoch(content.domain, each)
        for each in content.blind
        if may_open(_state(each.state))
    }


def _blind_epoch(domain: str, content: BlindAgentEpoch) -> BlindEpoch:
    place = Place(domain, content.epoch)
    public = BlindPublic.from_bytes(content.public)
    shares = {handle: AgentShare.from_bytes(data) for handle, data in content.shares.items()}
    # INVARIANT: what is of another epoch, or somebody else's, is never taken for this one.
    if public.place != place or any(
        (share.place, share.handle, share.search.system) != (place, handle, public.search)
        for handle, share in shares.items()
    ):
        raise DecodeError("a key stands in the place of another one")
    return BlindEpoch(content.epoch, _state(content.state), public, shares)


def _splits(content: AgentContent) -> Mapping[str, frozenset[str]] | None:
    if content.splits is None:
        return None
    return {name: frozenset(attributes) for name, attributes in content.splits.items()}


def _open_wraps(
    wraps: Iterable[Wrap], sealing_key: SealingKey, audience: str
) -> list[tuple[str, GroupKey]]:
    return [
        (wrap.group, _open_one(wrap, sealing_key, audience))
        for wrap in wraps
        if may_open(wrap.state)
    ]


def _open_one(wrap: Wrap, sealing_key: SealingKey, audience: str) -> GroupKey:
    key = open_wrap(wrap, sealing_key, audience=audience)
    return GroupKey(wrap.epoch, _state(wrap.state), key)


def _state(word: str) -> EpochState:
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
        state=_state(content.state),
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
