"""The immutable policy in force at an agent: one snapshot a domain.

A snapshot is built once from a verified bundle and swapped in as a whole. What costs
(opening key wraps, matching every rule against every subject) happens here and never
per event: an event only looks up tags and bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from brokers.matching import (
    EVENT,
    LOWER,
    NO_RULES,
    EpochPolicy,
    Rule,
    RuleIndex,
    build_epoch,
    index_of,
    state_of,
)
from policyengine.blind import AgentShare, BlindPublic, Place
from policyengine.bundles import (
    AgentContent,
    AgentRef,
    BlindAgentEpoch,
    ClientRef,
    DecisionSettings,
    Floors,
    OpenedBundle,
)
from policyengine.bundles.ordered import OrderedColumn, columns_by_name
from policyengine.errors import DecodeError, PortcullisError, RejectedError
from policyengine.events import AttributeSpec, EventTypes, TypeSpec
from policyengine.primitives.hpke import SealingKey
from policyengine.trustgroups import EpochState, Wrap, may_open, may_seal, open_wrap

__all__ = [
    "EVENT",
    "LOWER",
    "NO_RULES",
    "BlindEpoch",
    "DomainSnapshot",
    "EpochPolicy",
    "GroupKey",
    "Rule",
    "RuleIndex",
    "build_epoch",
    "build_snapshot",
    "index_of",
]

_KEY = "key:"
_OVERLAY = "overlay:"


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
        agents: all agents of the overlay, this one included, without those that notices took out.
        clients: own clients by handle.
        epochs: encoding epochs that are not retired, by number.
        attribute_keys: (key name, epoch) -> key.
        overlay_keys: epoch -> key of the hops between agents.
        denied: handles that notices have taken out since the bundle was made.
        held: handles that lost something which this bundle does not know yet: they get nothing
            before one that does, and what is for them waits.
        blind: blind epochs that are not retired, by number.
        splits: event type -> attributes of the part of it that travels over this overlay; None
            where the bundle does not say which types are split.
        ordered: columns of order-preserving ciphertexts by name, those that are over too.
        decisions: how decisions are logged; None: they are not.
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
    held: frozenset[str] = frozenset()
    blind: Mapping[int, BlindEpoch] = field(default_factory=dict, repr=False)
    splits: Mapping[str, frozenset[str]] | None = None
    ordered: Mapping[str, OrderedColumn] = field(default_factory=dict)
    decisions: DecisionSettings | None = None

    @property
    def peers(self) -> tuple[AgentRef, ...]:
        """The other agents of the overlay."""
        return tuple(ref for name, ref in self.agents.items() if name != self.agent)

    @property
    def newest_epoch(self) -> int:
        """The highest encoding epoch held, or -1."""
        return max(self.epochs, default=-1)

    def under(self, floors: Floors) -> DomainSnapshot:
        """The same policy, with what notices took away that it does not know.

        Args:
            floors: of the trusted state; those that this revision knows count for nothing.
        """
        left = floors.above(self.revision)
        gone = left.agent_names - {self.agent}
        agents = {name: ref for name, ref in self.agents.items() if name not in gone}
        return replace(self, agents=agents, held=self.held | left.handle_names)

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
        ordered=columns_by_name(content.domain, content.ordered, types),
        decisions=content.decisions,
    )


def _build_blind(content: AgentContent) -> dict[int, BlindEpoch]:
    return {
        each.epoch: _blind_epoch(content.domain, each)
        for each in content.blind
        if may_open(state_of(each.state))
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
    return BlindEpoch(content.epoch, state_of(content.state), public, shares)


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
    return GroupKey(wrap.epoch, state_of(wrap.state), key)
