"""What a bundle carries: everything one audience needs to know of one domain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from policyengine.bundles.blind import BlindAgentEpoch, BlindClientEpoch, OrderKey
from policyengine.bundles.decisions import DecisionSettings
from policyengine.bundles.encoded import EpochContent
from policyengine.bundles.ordered import OrderedColumn
from policyengine.bundles.references import AgentRef, ClientRef, HomeAgent, TagKey
from policyengine.primitives.records import (
    IDENTIFIER,
    LABEL,
    UINT,
    Document,
    Integer,
    ListOf,
    MapOf,
    Nested,
    Optional,
    Record,
    invalid,
)
from policyengine.trustgroups.wraps import Wrap

_TYPES = ListOf(Document(), 4096)
_LEASE = Integer(1, 86_400)
_WINDOW = Integer(1, 86_400)
_AGENT_BLIND = ListOf(Nested(BlindAgentEpoch), 8)
_CLIENT_BLIND = ListOf(Nested(BlindClientEpoch), 8)
ORDER_KEYS = ListOf(Nested(OrderKey), 4096)
_COLUMNS = ListOf(Nested(OrderedColumn), 65_536)
_SPLIT_ATTRIBUTES = ListOf(LABEL, 1024, unique=True)
_PART_OF_TYPE = MapOf(LABEL, _SPLIT_ATTRIBUTES, 4096)


def _unique(where: str, keys: Iterable[object]) -> None:
    listed = list(keys)
    if len(set(listed)) != len(listed):
        raise invalid(where, "must not repeat an entry")


def _one_current(where: str, states: Iterable[str]) -> None:
    if sum(state == "current" for state in states) > 1:
        raise invalid(where, "must not have two current epochs")


@dataclass(frozen=True)
class AgentContent(Record):
    """Everything that an agent holds of one domain.

    Args:
        domain: the domain.
        agent: whose content this is.
        overlay: the overlay that the agent serves.
        lease_seconds: how long a lease of this domain lasts, in seconds.
        types: event types as `events.TypeSpec` writes them.
        agents: all agents of the overlay, this one included.
        clients: publishers and subscribers whose home on the overlay is this agent.
        epochs: encoding epochs; at most one is current.
        wraps: keys of attributes (`key:<name>`) and of the overlay (`overlay:<name>`).
        notices_through: the last notice that this content takes into account.
        blind: blind epochs with the shares of own clients; none without blind attributes.
        ordered: order-preserving attributes and their epochs, without keys.
        splits: event type -> attributes of the part that travels over this overlay; a type
            without an entry has no part here but the whole event. None: nothing is said.
        decisions: how decisions are logged; None: they are not.
    """

    domain: Annotated[str, IDENTIFIER]
    agent: Annotated[str, IDENTIFIER]
    overlay: Annotated[str, IDENTIFIER]
    lease_seconds: Annotated[int, _LEASE]
    types: Annotated[tuple[Mapping[str, Any], ...], _TYPES]
    agents: Annotated[tuple[AgentRef, ...], ListOf(Nested(AgentRef), 10_000)]
    clients: Annotated[tuple[ClientRef, ...], ListOf(Nested(ClientRef))]
    epochs: Annotated[tuple[EpochContent, ...], ListOf(Nested(EpochContent), 8)]
    wraps: Annotated[tuple[Wrap, ...], ListOf(Nested(Wrap), 65_536)]
    notices_through: Annotated[int, UINT]
    blind: Annotated[tuple[BlindAgentEpoch, ...], _AGENT_BLIND] = ()
    ordered: Annotated[tuple[OrderedColumn, ...], _COLUMNS] = ()
    splits: Annotated[Mapping[str, Sequence[str]] | None, Optional(_PART_OF_TYPE)] = None
    decisions: Annotated[DecisionSettings | None, Optional(Nested(DecisionSettings))] = None

    def _agree(self) -> None:
        _unique("blind", (item.epoch for item in self.blind))
        _one_current("blind", (item.state for item in self.blind))
        _unique("agents", (item.name for item in self.agents))
        _unique("clients", (item.handle for item in self.clients))
        _unique("epochs", (item.epoch for item in self.epochs))
        _unique("wraps", ((item.group, item.epoch) for item in self.wraps))
        _one_current("epochs", (item.state for item in self.epochs))
        _check_ordered(self.ordered)


@dataclass(frozen=True)
class ClientContent(Record):
    """Everything that a publisher's or subscriber's client holds of one domain.

    Args:
        domain: the domain.
        handle: the client's pseudonym.
        homes: its home agents, at most one an overlay.
        types: event types as `events.TypeSpec` writes them.
        splits: event type -> its parts in order, each `{"overlay", "attributes"}`; a type
            without an entry goes whole to the first home.
        tag_keys: keys of the routing tags by overlay and epoch.
        predicates: predicates that tags are made for, as `attributes` writes them.
        publishes: event types (sub-trees) that the client may publish.
        window_seconds: how long parts wait for each other, in seconds.
        fallbacks: agents that serve the client where its home does not answer, at most one an
            overlay and only beside a home there.
        blind: blind epochs with the client's keys; none where it neither publishes nor receives
            blind attributes.
        ordered: keys of order-preserving attributes.
    """

    domain: Annotated[str, IDENTIFIER]
    handle: Annotated[str, IDENTIFIER]
    homes: Annotated[tuple[HomeAgent, ...], ListOf(Nested(HomeAgent), 64)]
    types: Annotated[tuple[Mapping[str, Any], ...], _TYPES]
    splits: Annotated[
        Mapping[str, Sequence[Mapping[str, Any]]], MapOf(LABEL, ListOf(Document(), 64), 4096)
    ]
    tag_keys: Annotated[tuple[TagKey, ...], ListOf(Nested(TagKey), 1024)]
    predicates: Annotated[tuple[Mapping[str, Any], ...], ListOf(Document(), 65_536)]
    publishes: Annotated[tuple[str, ...], ListOf(LABEL, 4096, unique=True)]
    window_seconds: Annotated[int, _WINDOW]
    fallbacks: Annotated[tuple[HomeAgent, ...], ListOf(Nested(HomeAgent), 64)] = ()
    blind: Annotated[tuple[BlindClientEpoch, ...], _CLIENT_BLIND] = ()
    ordered: Annotated[tuple[OrderKey, ...], ORDER_KEYS] = ()

    def _agree(self) -> None:
        _unique("blind", (item.epoch for item in self.blind))
        _one_current("blind", (item.state for item in self.blind))
        _unique("homes", (item.overlay for item in self.homes))
        _unique("fallbacks", (item.overlay for item in self.fallbacks))
        homes = {item.overlay: item.agent for item in self.homes}
        if any(homes.get(item.overlay, item.agent) == item.agent for item in self.fallbacks):
            raise invalid("fallbacks", "must be other agents than the homes, beside a home")
        _unique("tag_keys", ((item.overlay, item.epoch) for item in self.tag_keys))
        _check_ordered(self.ordered)
        for name, parts in self.splits.items():
            _check_split(name, parts)


@dataclass(frozen=True)
class ComparatorContent(Record):
    """Everything that a comparator holds of one domain.

    Args:
        domain: the domain.
        comparator: whose content this is.
        ordered: its keys of order-preserving attributes.
    """

    domain: Annotated[str, IDENTIFIER]
    comparator: Annotated[str, IDENTIFIER]
    ordered: Annotated[tuple[OrderKey, ...], ORDER_KEYS]

    def _agree(self) -> None:
        _check_ordered(self.ordered)


def _check_ordered(entries: Sequence[OrderedColumn | OrderKey]) -> None:
    _unique("ordered", ((one.type, one.attribute, one.epoch) for one in entries))
    _unique("ordered", ((one.type, one.attribute) for one in entries if one.state == "current"))


def _check_split(name: str, parts: Sequence[Mapping[str, Any]]) -> None:
    for part in parts:
        if set(part) != {"overlay", "attributes"}:
            raise invalid("splits", f"of `{name}` must have `overlay` and `attributes`")
        IDENTIFIER.clean(part["overlay"], "splits")
        _SPLIT_ATTRIBUTES.clean(part["attributes"], "splits")
    if not parts:
        raise invalid("splits", f"of `{name}` must have parts")
    _unique("splits", (part["overlay"] for part in parts))
