"""Which agents and clients a domain's bundles go to."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q, QuerySet

from adminapp.agreements import selectors as agreements
from adminapp.identity import guests
from adminapp.identity.models import Agent, Domain, HomeAgent, Principal
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


def domains_of_agent(agent: Agent) -> list[Domain]:
    """The domains that an agent serves, by name; none for a banned one."""
    return domains_of_agents([agent])[agent.pk]


def domains_of_agents(agents: Iterable[Agent]) -> dict[int, list[Domain]]:
    """The same for many at once, by the agent's primary key: a few queries in all."""
    rows = {agent.pk: agent for agent in agents}
    active = [pk for pk, agent in rows.items() if agent.state == Agent.State.ACTIVE]
    living = HomeAgent.objects.filter(principal__state=Principal.State.ACTIVE).order_by()
    mine = living.filter(Q(agent__in=active) | Q(fallback__in=active))
    places = mine.values_list("agent_id", "fallback_id", "principal__domain_id").distinct()
    homes = {(pk, domain) for *pair, domain in places for pk in pair if pk in active}
    members = Agent.objects.filter(pk__in=active, trust_groups__isnull=False).order_by()
    found = homes | set(members.values_list("pk", "trust_groups__domain_id").distinct())
    opened = agreements.providers_of({domain for _, domain in homes})
    for consumer, provider in opened.values_list("consumer_id", "provider_id"):
        found |= {(agent, provider) for agent, domain in homes if domain == consumer}
    domains = Domain.objects.in_bulk({domain for _, domain in found})
    served: dict[int, list[Domain]] = {pk: [] for pk in rows}
    for agent, domain in found:
        if domain in domains:
            served[agent].append(domains[domain])
    return {pk: sorted(each, key=lambda domain: domain.name) for pk, each in served.items()}


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
