"""What a revocation would do: it is carried out in a rehearsal, looked at, and taken back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from adminapp.audit import services as audit
from adminapp.core.journal import Journal
from adminapp.distribution import endings, losses, scopes
from adminapp.distribution.endings import Kind, Target
from adminapp.distribution.models import EncodedItem, EncodingEpoch
from adminapp.distribution.models.revocations import MOVES_ENCODINGS
from adminapp.distribution.serving import serving_agents
from adminapp.identity.models import Domain, User
from adminapp.policies.access import Access
from adminapp.roles.models import Appointment
from adminapp.roles.selectors import active_roles

SHOWN = 200


@dataclass(frozen=True)
class Foreseen:
    """The consequences of a revocation.

    Args:
        loses: rights that end, the first ones.
        lost: how many end in all.
        principals: how many principals lose something.
        roles: roles that fall, of the principal that it is about.
        appointments: those that end, as `badge(7) of anna`.
        agents: agents that are told at once.
        keys: keys of trust groups that are replaced.
        encodings: how many encodings are computed anew.
        moves: whether everything is encoded anew, under a new epoch.
    """

    loses: tuple[Access, ...]
    lost: int
    principals: int
    roles: tuple[str, ...]
    appointments: tuple[str, ...]
    agents: tuple[str, ...]
    keys: tuple[str, ...]
    encodings: int
    moves: bool


def foresee(*, actor: User | None, target: Target) -> Foreseen:
    """The consequences of a revocation now. Nothing is changed.

    Raises:
        ServiceError: as the revocation itself would.
    """
    endings.require(actor, target)
    book = Journal(batch=True, approved=True, extra={"rehearsal": True})
    with audit.rehearsing(book):
        return _foresee(actor, target, book)


def _foresee(actor: User | None, target: Target, book: Journal) -> Foreseen:
    domains = losses.concerned(target)
    before = losses.states(target)
    held = _roles(target)
    lasting = set(_appointments(target))
    endings.end(actor, target, "foreseen", None)
    found = losses.between(before, losses.states(target), domains)
    lines = tuple(line for each in found for line in each.lines)
    handles = {line.handle for line in lines}
    whose = set(handles)
    if target.principal is not None:
        whose.add(target.principal.handle)
    moves = target.kind in MOVES_ENCODINGS and _whole(target)
    count = _all_encodings(target) if moves else 0
    if not moves and target.kind != Kind.MEMBER:
        count = len(losses.encodings(domains, whose))
    return Foreseen(
        loses=lines[:SHOWN],
        lost=sum(each.lost for each in found),
        principals=len(handles),
        roles=tuple(sorted(held - _roles(target))),
        appointments=tuple(sorted(lasting - set(_appointments(target)))),
        agents=_agents(target, found, domains),
        keys=_keys(book, target),
        encodings=count,
        moves=moves,
    )


def _agents(
    target: Target, found: Iterable[losses.Losses], domains: Iterable[Domain]
) -> tuple[str, ...]:
    names = {each.agent for each in losses.told(target, found, domains)}
    if target.kind in MOVES_ENCODINGS:
        names |= {agent.name for agent in serving_agents(target.domain)}
    return tuple(sorted(names))


def _keys(book: Journal, target: Target) -> tuple[str, ...]:
    return tuple(
        sorted(
            item.after["group"]
            for item in book.items
            if item.action == "key-epoch.created"
            and item.after
            and item.domain == target.domain.name
        )
    )


def _whole(target: Target) -> bool:
    """Whether a new epoch follows: the party may have known something of the current one."""
    return target.principal is None or scopes.for_principal(target.principal).everything


def _all_encodings(target: Target) -> int:
    epoch = EncodingEpoch.objects.filter(domain=target.domain, state=EncodingEpoch.State.CURRENT)
    return EncodedItem.objects.filter(epoch__in=epoch).count()


def _appointments(target: Target) -> list[str]:
    if target.kind not in {Kind.APPOINTMENT, Kind.HOLDER}:
        return []
    rows = Appointment.objects.filter(principal__domain=target.domain).active()
    return [f"{atom} of {name}" for atom, name in rows.values_list("atom", "principal__name")]


def _roles(target: Target) -> frozenset[str]:
    """The roles of the principal that it is about."""
    return frozenset() if target.principal is None else active_roles(target.principal)
