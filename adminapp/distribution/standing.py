"""Who may stand at an ActiveMQ broker, and with whom they deal there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from django.db import transaction

from adminapp.distribution.models import Comparator
from adminapp.distribution.serving import (
    clients_of,
    domains_of_agents,
    homes_of,
    seconds_of,
    serving_agents,
)
from adminapp.enrolment import selectors as enrolment
from adminapp.identity.guests import guests
from adminapp.identity.models import Agent, Domain, Overlay


@dataclass(frozen=True)
class StandingAgent:
    """An agent that is not banned.

    Args:
        name: its name.
        overlay: the overlay it stands on.
        domains: names of the domains that it serves.
        subject: the name in the certificate that it enrolled with, or "" where the operator gave
            it one of another kind.
    """

    name: str
    overlay: str
    domains: tuple[str, ...]
    subject: str = ""


@dataclass(frozen=True)
class StandingClient:
    """A living principal that registered keys.

    Args:
        handle: its name at brokers.
        certificate_subject: of the certificate it registered (RFC 4514), or "".
        domain: the domain it belongs to.
        homes: overlay -> its home agent there.
        visits: names of other domains that it is a guest of.
        seconds: overlay -> the agent that serves it where its home does not answer.
        subject: the name in the certificate that it enrolled with, or "".
    """

    handle: str
    certificate_subject: str
    domain: str
    homes: tuple[tuple[str, str], ...]
    visits: tuple[str, ...] = ()
    seconds: tuple[tuple[str, str], ...] = ()
    subject: str = ""

    def served_at(self, overlay: str) -> tuple[str, ...]:
        """Its agents on an overlay, the home first."""
        places = (dict(self.homes).get(overlay), dict(self.seconds).get(overlay))
        return tuple(name for name in places if name is not None)


@dataclass(frozen=True)
class Standing:
    """Everybody who takes part, as the administration model has it at one moment."""

    agents: tuple[StandingAgent, ...]
    clients: tuple[StandingClient, ...]
    comparators: tuple[str, ...] = ()
    """Names of comparators; they have business at the control queues only."""

    def on(self, overlay: str) -> Standing:
        """Those who have business at the broker of one overlay."""
        return Standing(
            tuple(one for one in self.agents if one.overlay == overlay),
            tuple(one for one in self.clients if one.served_at(overlay)),
        )


@transaction.atomic
def standing() -> Standing:
    """Read it; banned agents, revoked principals and lapsed certificates are left out."""
    agents = Agent.objects.filter(state=Agent.State.ACTIVE).select_related("overlay")
    clients: list[StandingClient] = []
    domains = list(Domain.objects.order_by("name"))
    visits: dict[str, list[str]] = defaultdict(list)
    of_agents, of_clients = enrolment.subjects()
    for domain in domains:
        for handle in guests(domain).values_list("handle", flat=True):
            visits[handle].append(domain.name)
    for domain in domains:
        serving = {agent.name for agent in serving_agents(domain)}
        for row in clients_of(domain):
            homes = tuple(homes_of(row, serving).items())
            clients.append(
                StandingClient(
                    row.handle,
                    row.certificate_subject,
                    domain.name,
                    homes,
                    tuple(visits[row.handle]),
                    tuple(seconds_of(row, serving).items()),
                    of_clients.get(row.handle, ""),
                )
            )
    served = domains_of_agents(agents)
    return Standing(
        tuple(
            StandingAgent(
                one.name,
                one.overlay.name,
                tuple(domain.name for domain in served[one.pk]),
                of_agents.get(one.name, ""),
            )
            for one in agents.order_by("name")
        ),
        tuple(sorted(clients, key=lambda client: client.handle)),
        tuple(Comparator.objects.order_by("name").values_list("name", flat=True)),
    )


def overlay_exists(name: str) -> bool:
    """Whether there is an overlay of this name."""
    return Overlay.objects.filter(name=name).exists()
