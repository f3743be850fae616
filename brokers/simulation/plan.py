"""One domain in plain: types, policies, agents and clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from policyengine.attributes import AttributeType, Value
from policyengine.events import TypeSpec


@dataclass(frozen=True)
class Rule:
    """A policy.

    Args:
        name: its name, an identifier.
        action: `publish` or `subscribe`.
        type: event type; its sub-types are included.
        expression: over `subject.*` and `event.*`.
        attributes: names it permits, or None for all.
    """

    name: str
    action: str
    type: str
    expression: str
    attributes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class AgentSite:
    """An agent and the overlay that it stands on."""

    name: str
    overlay: str


@dataclass(frozen=True)
class ClientSite:
    """A publisher or subscriber.

    Args:
        handle: its pseudonym.
        subject: what policies see of it, `subject.*` by full name.
        homes: overlay -> name of its home agent there.
    """

    handle: str
    subject: Mapping[str, Value]
    homes: Mapping[str, str]


@dataclass(frozen=True)
class Plan:
    """One domain in plain.

    Args:
        domain: its name.
        types: event types.
        schema: types of `subject.*` by full name.
        rules: policies.
        agents: its agents.
        clients: its publishers and subscribers.
        key_holders: attribute key -> agents that hold it.
        splits: event type -> (overlay, attribute names) of each part.
        lease_seconds: how long a lease lasts.
        window_seconds: how long parts wait for one another at a client.
    """

    domain: str
    types: tuple[TypeSpec, ...]
    schema: Mapping[str, AttributeType]
    rules: tuple[Rule, ...]
    agents: tuple[AgentSite, ...]
    clients: tuple[ClientSite, ...]
    key_holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    splits: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]] = field(default_factory=dict)
    lease_seconds: int = 30
    window_seconds: int = 300
