"""What revoking a principal would do, before anybody does it."""

from __future__ import annotations

from dataclasses import dataclass

from adminapp.distribution import selectors as distribution
from adminapp.identity import selectors as identity
from adminapp.identity.models import Agent, Principal
from adminapp.policies import reach
from adminapp.policies.access import Access
from adminapp.roles import selectors as roles


@dataclass(frozen=True)
class Impact:
    """The consequences of a revocation.

    Args:
        loses: everything that the principal may do now.
        appointments: names of the appointments that end.
        roles: the roles that fall with them.
        homes: agents that serve it and stop at once.
        agents: all agents of the domain: they get new encodings.
        encodings: how many encodings are computed anew, over all agents.
        epoch: number of the encoding epoch in force, None before the first.
    """

    loses: tuple[Access, ...]
    appointments: tuple[str, ...]
    roles: tuple[str, ...]
    homes: tuple[Agent, ...]
    agents: tuple[Agent, ...]
    encodings: int
    epoch: int | None


def of(principal: Principal) -> Impact:
    """The consequences of revoking `principal` now."""
    domain = principal.domain
    found = reach.take(domain, principal=principal)
    epoch = distribution.encoding_epochs(domain).filter(state="current").first()
    return Impact(
        loses=tuple(found.effective(principal.name)),
        appointments=tuple(_appointments(principal)),
        roles=tuple(sorted(roles.active_roles(principal))),
        homes=tuple(home.agent for home in principal.homes.all()),
        agents=tuple(identity.serving_agents(domain)),
        encodings=epoch.items.count() if epoch else 0,
        epoch=epoch.number if epoch else None,
    )


def _appointments(principal: Principal) -> list[str]:
    return list(principal.appointments.active().values_list("name", flat=True))
