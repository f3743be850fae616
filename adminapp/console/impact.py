"""What revoking a principal would do, before anybody does it."""

from __future__ import annotations

from dataclasses import dataclass

from adminapp.distribution import endings
from adminapp.distribution import impact as rehearsal
from adminapp.distribution import selectors as distribution
from adminapp.identity import selectors as identity
from adminapp.identity.models import Agent, Principal, User
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
        encodings: how many encodings are computed anew or taken away, over all agents.
        moves: whether everything is encoded anew under new keys, because it held keys itself.
        epoch: number of the encoding epoch in force, None before the first.
    """

    loses: tuple[Access, ...]
    appointments: tuple[str, ...]
    roles: tuple[str, ...]
    homes: tuple[Agent, ...]
    agents: tuple[Agent, ...]
    encodings: int
    moves: bool
    epoch: int | None


def of(principal: Principal, actor: User) -> Impact:
    """The consequences of revoking `principal` now, as it would really go; nothing is changed."""
    domain = principal.domain
    foreseen = rehearsal.foresee(actor=actor, target=endings.principal(principal))
    found = reach.take(domain, only=[principal.pk])
    epoch = distribution.encoding_epochs(domain).filter(state="current").first()
    return Impact(
        loses=tuple(found.effective(principal.name)),
        appointments=tuple(_appointments(principal)),
        roles=tuple(sorted(roles.active_roles(principal))),
        homes=tuple(home.agent for home in principal.homes.all()),
        agents=tuple(identity.serving_agents(domain)),
        encodings=foreseen.encodings,
        moves=foreseen.moves,
        epoch=epoch.number if epoch else None,
    )


def _appointments(principal: Principal) -> list[str]:
    return list(principal.appointments.active().values_list("name", flat=True))
