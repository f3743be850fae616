"""Which agents and clients a domain's bundles go to."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from adminapp.identity.models import Agent, Domain, Principal


def serving_agents(domain: Domain) -> QuerySet[Agent]:
    """Agents that serve the domain: homes of its living principals and its trust groups' members.

    A banned agent serves nothing.
    """
    homes = Q(homes__principal__domain=domain, homes__principal__state=Principal.State.ACTIVE)
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
    homes = Q(principals__homes__agent=agent, principals__state=Principal.State.ACTIVE)
    return Domain.objects.filter(homes | Q(trust_groups__members=agent)).distinct()


def clients_of(domain: Domain) -> QuerySet[Principal]:
    """Living principals that registered credentials: the only ones a bundle can be sealed to."""
    return (
        Principal.objects.filter(domain=domain, state=Principal.State.ACTIVE)
        .exclude(sealing_key="")
        .exclude(verify_key="")
        .prefetch_related("homes__agent__overlay")
        .order_by("handle")
    )
