"""Which agents and clients a domain's bundles go to."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from adminapp.identity.models import Agent, Domain, Principal
from adminapp.identity.selectors import enrolled, homes_served


def serving_agents(domain: Domain) -> QuerySet[Agent]:
    """Agents that serve the domain: homes of its living principals and its trust groups' members.

    A banned agent serves nothing.
    """
    homes = homes_served(domain=domain, state=Principal.State.ACTIVE)
    trusted = Q(trust_groups__domain=domain)
    return (
        Agent.objects.filter(homes | trusted, state=Agent.State.ACTIVE)
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
        Q(homes__agent=agent) | Q(homes__fallback=agent, homes__agent__state=Agent.State.BANNED)
    )
    return Domain.objects.filter(
        Q(pk__in=living.order_by().values("domain")) | Q(trust_groups__members=agent)
    ).distinct()


def clients_of(domain: Domain) -> QuerySet[Principal]:
    """Living principals that registered credentials: the only ones a bundle can be sealed to."""
    return (
        Principal.objects.filter(enrolled(), domain=domain, state=Principal.State.ACTIVE)
        .prefetch_related("homes__agent__overlay", "homes__fallback__overlay")
        .order_by("handle")
    )
