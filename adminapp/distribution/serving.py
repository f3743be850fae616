"""Which agents and clients a domain's bundles go to."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from adminapp.agreements import selectors as agreements
from adminapp.identity import guests
from adminapp.identity.models import Agent, Domain, Principal
from adminapp.identity.selectors import enrolled, homes_served


def serving_agents(domain: Domain) -> QuerySet[Agent]:
    """Agents that serve the domain: homes of its living principals and of its guests, and its
    trust groups' members.

    A banned agent serves nothing.
    """
    visitors = homes_served(pk__in=guests.guests(domain).values("pk"))
    return _active(_own(domain) | visitors)


def own_agents(domain: Domain) -> QuerySet[Agent]:
    """Those that would serve the domain without any agreement."""
    return _active(_own(domain))


def _own(domain: Domain) -> Q:
    homes = homes_served(domain=domain, state=Principal.State.ACTIVE)
    return homes | Q(trust_groups__domain=domain)


def _active(condition: Q) -> QuerySet[Agent]:
    return (
        Agent.objects.filter(condition, state=Agent.State.ACTIVE)
        .select_related("overlay")
        .distinct()
        .order_by("name")
    )


def serves(agent: Agent, domain: Domain) -> bool:
    """Whether this agent is one of them."""
    return serving_agents(domain).filter(pk=agent.pk).exists()


def domains_of_agent(agent: Agent) -> QuerySet[Domain]:
    """The domains that an agent serves; none for a banned one."""
    if agent.state != Agent.State.ACTIVE:
        return Domain.objects.none()
    living = Principal.objects.filter(state=Principal.State.ACTIVE).filter(
        Q(homes__agent=agent) | Q(homes__fallback=agent)
    )
    homes = living.order_by().values("domain")
    return Domain.objects.filter(
        Q(pk__in=homes) | Q(trust_groups__members=agent) | Q(pk__in=agreements.providers_of(homes))
    ).distinct()


def clients_of(domain: Domain) -> QuerySet[Principal]:
    """Living principals that registered credentials: the only ones a bundle can be sealed to."""
    return (
        Principal.objects.filter(enrolled(), domain=domain, state=Principal.State.ACTIVE)
        .prefetch_related("homes__agent__overlay", "homes__fallback__overlay")
        .order_by("handle")
    )


def homes_of(row: Principal, serving: set[str]) -> dict[str, str]:
    """A client's home agents by overlay; a banned one is nobody's home, its fallback is.

    Args:
        row: from `clients_of`.
        serving: names of the agents that serve the domain.
    """
    found = [home.serving() for home in row.homes.all()]
    pairs = {agent.overlay.name: agent.name for agent in found}
    return {overlay: pairs[overlay] for overlay in sorted(pairs) if pairs[overlay] in serving}


def seconds_of(row: Principal, serving: set[str]) -> dict[str, str]:
    """The agents that serve a client where its home does not answer, by overlay.

    Args:
        row: from `clients_of`.
        serving: names of the agents that serve the domain.
    """
    homes = homes_of(row, serving)
    pairs = {home.agent.overlay.name: home.fallback for home in row.homes.all()}
    return {
        overlay: agent.name
        for overlay, agent in sorted(pairs.items())
        if agent is not None
        and agent.name in serving
        and homes.get(overlay, agent.name) != agent.name
    }
