"""Agents and clients as pure functions, at a control plane that is pumped by hand.

They hold what was compiled for them, sealed, and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from adminapp.distribution.models import Bundle
from adminapp.identity.models import Principal
from brokers.client.policy import ClientPolicy
from brokers.data.handle import Effects
from policyengine.bundles import Delivery
from tests.support.audiences import Audience, Plane
from tests.support.blind import blind_part, message_of, received, subscribe
from tests.support.pure_agents import PureAgent, client_policy, hops


@dataclass
class SiteMember:
    """An agent or a client.

    Args:
        name: its name or handle.
        keys: its own.
    """

    name: str
    keys: Audience


class Site:
    """Stands where tests have an `Organisation`, with bundles from the control plane.

    Args:
        plane: of the control plane.
        domain: name of the domain.
    """

    def __init__(self, plane: Plane, domain: str) -> None:
        self.domain = domain
        self.authority = SimpleNamespace(anchors=lambda: plane.anchors)
        members = {
            kind: {
                name: SiteMember(name, audience)
                for address, audience in plane.audiences.items()
                for found, _, name in [address.partition(":")]
                if found == kind
            }
            for kind in ("agent", "client")
        }
        self.agents, self.clients = members["agent"], members["client"]

    def bundle(self, address: str, revision: int) -> Any:
        """The newest bundle that was made for an audience."""
        rows = Bundle.objects.filter(audience=address, domain__name=self.domain)
        return SimpleNamespace(message=bytes(rows.order_by("-revision")[0].message))


@dataclass
class Journey:
    """Events on their way from a client over all agents of a site.

    Args:
        site: who is who.
        names: the agents.
    """

    site: Site
    names: tuple[str, ...]
    agents: dict[str, PureAgent] = field(default_factory=dict)
    seen: list[bytes] = field(default_factory=list)
    published: int = 0

    def __post_init__(self) -> None:
        self.agents = {name: PureAgent(self.site, name) for name in self.names}

    def subscribe(self, name: str, event_type: str, text: str = "") -> Effects:
        """Have a principal's client subscribe at its home."""
        handle = Principal.objects.get(name=name).handle
        return subscribe(self.agents[self._home(handle)], handle, text, event_type=event_type)

    def publish(
        self,
        name: str,
        event_type: str,
        values: Mapping[str, Any],
        *,
        policy: ClientPolicy | None = None,
    ) -> tuple[Effects, dict[str, list[Delivery]]]:
        """Have a principal's client publish; what its home did, and what clients then have."""
        handle = Principal.objects.get(name=name).handle
        self.published += 1
        part = blind_part(
            self.site,
            handle,
            values,
            event_type=event_type,
            identifier=f"{self.published:032x}",
            policy=policy,
        )
        home = self._home(handle)
        first = self.agents[home].client_message(message_of(self.site, part, home))
        return first, self._follow(first)

    def _follow(self, first: Effects) -> dict[str, list[Delivery]]:
        found: dict[str, list[Delivery]] = {}
        waiting = deque([first])
        while waiting:
            effects = waiting.popleft()
            self.seen += [message.body for message in effects.outgoing]
            for handle, got in received(self.site, effects).items():
                found.setdefault(handle, []).extend(got)
            for name, body in hops(effects.outgoing).items():
                waiting.append(self.agents[name].hop(body))
        return found

    def _home(self, handle: str) -> str:
        homes = client_policy(self.site, handle).homes.values()
        return next(home.agent for home in homes)
