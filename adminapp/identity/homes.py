"""Where principals are at home: on each overlay one agent, and one that stands in for it."""

from __future__ import annotations

from collections.abc import Iterable

from adminapp.core import versions
from adminapp.core.errors import Invalid
from adminapp.identity.models import Agent, HomeAgent, Principal


def set_homes(
    principal: Principal, agents: Iterable[Agent] | None, fallbacks: Iterable[Agent] | None
) -> None:
    """Make these all the homes of a principal.

    Args:
        agents: one for each overlay; None keeps those it has.
        fallbacks: who serves where the agent is banned, on overlays where there is a home; None
            keeps those that still fit.

    Raises:
        Invalid: two on one overlay, a banned one, or a fallback that stands in for nobody.
    """
    held = {home.overlay_id: home for home in principal.homes.select_related("agent", "fallback")}
    homes = (
        {overlay: home.agent for overlay, home in held.items()}
        if agents is None
        else by_overlay(agents, "agents")
    )
    kept = {overlay: home.fallback for overlay, home in held.items() if home.fallback}
    seconds = (
        {o: a for o, a in kept.items() if o in homes and a.pk != homes[o].pk}
        if fallbacks is None
        else by_overlay(fallbacks, "fallbacks")
    )
    check_fallbacks(homes, seconds)
    _write(principal, held, homes, seconds)
    principal.__dict__.get("_prefetched_objects_cache", {}).pop("homes", None)


def by_overlay(agents: Iterable[Agent], field: str) -> dict[int, Agent]:
    """Agents by overlay.

    Raises:
        Invalid: two on one overlay, or a banned one.
    """
    found: dict[int, Agent] = {}
    for agent in agents:
        if agent.overlay_id in found and found[agent.overlay_id].pk != agent.pk:
            raise Invalid.at(f"/{field}", "a principal has one home agent on an overlay, not two")
        found[agent.overlay_id] = agent
    banned = sorted(agent.name for agent in found.values() if agent.state == Agent.State.BANNED)
    if banned:
        raise Invalid.at(f"/{field}", f"banned agents cannot be a home: {', '.join(banned)}")
    return found


def check_fallbacks(homes: dict[int, Agent], fallbacks: dict[int, Agent]) -> None:
    """Raises Invalid where a fallback stands in for nobody, or for itself."""
    for overlay, agent in fallbacks.items():
        if overlay not in homes:
            raise Invalid.at(
                "/fallbacks", f"`{agent.name}` stands in on an overlay without a home agent"
            )
        if homes[overlay].pk == agent.pk:
            raise Invalid.at("/fallbacks", f"`{agent.name}` cannot stand in for itself")


def _write(
    principal: Principal,
    held: dict[int, HomeAgent],
    homes: dict[int, Agent],
    fallbacks: dict[int, Agent],
) -> None:
    for overlay_id, agent in homes.items():
        fallback = fallbacks.get(overlay_id)
        home = held.pop(overlay_id, None)
        if home is None:
            HomeAgent.objects.create(
                principal=principal, overlay_id=overlay_id, agent=agent, fallback=fallback
            )
        elif (home.agent_id, home.fallback_id) != (agent.pk, fallback and fallback.pk):
            home.agent, home.fallback = agent, fallback
            versions.save(home)
    HomeAgent.objects.filter(pk__in=[home.pk for home in held.values()]).delete()
