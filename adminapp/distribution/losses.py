"""Who loses what by a change: told by comparing what everybody may do before and after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from adminapp.core import journal
from adminapp.core.errors import InUse
from adminapp.distribution.batches import chunked
from adminapp.distribution.endings import Kind, Target
from adminapp.distribution.models import EncodedItem, EncodingEpoch, Recipient
from adminapp.distribution.serving import serving_agents
from adminapp.identity import guests
from adminapp.identity.lineage import descendants
from adminapp.identity.models import Agent, Domain
from adminapp.policies import reach
from adminapp.policies.access import Access
from adminapp.policies.reach import Reach
from policyengine.bundles.addresses import audience
from policyengine.bundles.messages import MOST, NO_FLOORS, Floor, Floors

LINES = 50_000
"""So many rights that end are told apart; beyond that the domain's events wait as a whole."""
_ENFORCED = frozenset({"publish", "subscribe"})


@dataclass(frozen=True)
class Told:
    """One agent that is told, and what.

    Args:
        domain: of which domain it is told.
        agent: its name.
        floors: what it takes away until the domain's revision is in force there.
    """

    domain: Domain
    agent: str
    floors: Floors


@dataclass(frozen=True)
class Losses:
    """What a change takes away in one domain.

    Args:
        domain: which one.
        handles: of everybody who loses something; None where there are too many to be named.
        lines: the rights that end, the first ones.
        lost: how many (principal, action, type, attribute) end in all.
    """

    domain: Domain
    handles: frozenset[str] | None
    lines: tuple[Access, ...]
    lost: int


def concerned(target: Target) -> list[Domain]:
    """The domains in which a revocation can take something away."""
    found = {target.domain.pk: target.domain}
    if target.kind == Kind.AGREEMENT:
        found |= {side.pk: side for side in (target.row.provider, target.row.consumer)}
    if target.kind == Kind.ROLE:
        found |= {below.pk: below for below in descendants(target.domain)}
    hosts = Domain.objects.filter(pk__in=guests.hosts(found.values()))
    found |= {host.pk: host for host in hosts}
    return [found[pk] for pk in sorted(found)]


def states(target: Target) -> dict[int, Reach]:
    """What everybody may do now, by domain; nothing of it where policies stay as they are."""
    if target.kind in {Kind.AGENT, Kind.MEMBER, Kind.CLIENT_KEY}:
        return {}
    return {domain.pk: reach.take(domain) for domain in concerned(target)}


def between(
    before: Mapping[int, Reach], after: Mapping[int, Reach], domains: Iterable[Domain]
) -> list[Losses]:
    """What the change from one state to the other took away.

    Raises:
        InUse: somebody gains something by it: policies may ask for what somebody does not have.
    """
    found = []
    for domain in domains:
        if domain.pk not in before:
            continue
        change = reach.compare(before[domain.pk], after[domain.pk], limit=LINES)
        won = [line for line in change.gains if line.action in _ENFORCED]
        if won:
            raise InUse(
                f"`{won[0].principal}` could then {won[0].action} `{won[0].type}`: a revocation "
                "only takes away; change the policy, or make this an ordinary change"
            )
        handles = frozenset(line.handle for line in change.losses)
        whole = len(change.losses) >= LINES or len(handles) > MOST
        found.append(Losses(domain, None if whole else handles, change.losses, change.lost))
    return found


def told(target: Target, lost: Iterable[Losses], domains: Iterable[Domain]) -> list[Told]:
    """The agents that must hear of it at once, each with what it then holds back.

    Args:
        target: what was revoked.
        lost: who lost what.
        domains: `concerned`, as it was before the change.
    """
    raised = raised_now()
    if target.kind == Kind.AGENT:
        return _peers(target, raised)
    if target.kind == Kind.MEMBER:
        assert target.agent is not None
        floors = Floors(revision=raised[target.domain.pk])
        return [Told(target.domain, target.agent.name, floors)]
    own = frozenset() if target.principal is None else frozenset({target.principal.handle})
    known = {each.domain.pk: each.handles for each in lost}
    found: list[Told] = []
    for domain in domains:
        # Keys are the same wherever a client takes part; other things may end in one domain only.
        here = domain.pk == target.domain.pk or target.kind == Kind.CLIENT_KEY
        mine = own if here else frozenset()
        handles = known.get(domain.pk, frozenset())
        found += _at_homes(domain, handles, mine, raised.get(domain.pk, 0))
    return found


def _at_homes(
    domain: Domain, handles: frozenset[str] | None, own: Iterable[str], revision: int
) -> list[Told]:
    if revision == 0:
        return []  # nothing of this domain was changed, so nothing of it can be waited for
    if handles is None:
        floors = Floors(revision=revision)
        return [Told(domain, agent.name, floors) for agent in serving_agents(domain)]
    homes = homes_of(handles | frozenset(own))
    return [
        Told(domain, agent, Floors(handles=tuple(Floor(name, revision) for name in sorted(held))))
        for agent, held in sorted(homes.items())
    ]


def homes_of(handles: Iterable[str]) -> dict[str, set[str]]:
    """Active agents that serve clients, as home or in its stead: name -> their handles."""
    wanted = list(handles)
    found: dict[str, set[str]] = {}
    for start in range(0, len(wanted), 500):
        chunk = wanted[start : start + 500]
        for path in ("homes__principal", "fallback_homes__principal"):
            rows = Agent.objects.filter(
                Q(**{f"{path}__handle__in": chunk}), state=Agent.State.ACTIVE
            )
            for name, handle in rows.values_list("name", f"{path}__handle"):
                found.setdefault(name, set()).add(handle)
    return found


def _peers(target: Target, raised: Mapping[int, int]) -> list[Told]:
    """The other agents of its overlay: they take nothing from it, and send it nothing, from now."""
    floor = Floor(target.row.name, raised[target.domain.pk])
    peers = serving_agents(target.domain).filter(overlay=target.row.overlay_id)
    return [
        Told(target.domain, peer.name, Floors(agents=(floor,)))
        for peer in peers.exclude(pk=target.row.pk)
    ]


def raised_now() -> Mapping[int, int]:
    """The new revision of each domain that the change under way has touched."""
    book = journal.current()
    assert book is not None  # T0 is one change
    return book.raised


def deadline(domain: Domain, agent: str) -> timedelta:
    """How long from now a lease that was given before can last at most."""
    return deadlines(domain, [agent])[agent]


def deadlines(domain: Domain, agents: Iterable[str]) -> dict[str, timedelta]:
    """The same of many agents, by name."""
    longest, now = timedelta(seconds=domain.lease_seconds), timezone.now()
    found = dict.fromkeys(agents, longest)
    addresses = {audience("agent", name): name for name in found}
    for chunk in chunked(addresses):
        rows = Recipient.objects.filter(
            audience__in=chunk, domain=domain, leased_until__isnull=False
        )
        for address, until in rows.values_list("audience", "leased_until"):
            # The domain may have asked for a longer lease a moment ago.
            found[addresses[address]] = max(longest, until - now)
    return found


def encodings(domains: Iterable[Domain], handles: Iterable[str]) -> list[list[object]]:
    """The encodings of subjects as agents hold them now: (row, what it says)."""
    wanted = list(handles)
    epochs = EncodingEpoch.objects.filter(
        domain__in=list(domains), state=EncodingEpoch.State.CURRENT
    )
    found: list[list[object]] = []
    for start in range(0, len(wanted), 500):
        rows = EncodedItem.objects.filter(
            epoch__in=epochs,
            kind=EncodedItem.Kind.SUBJECT,
            key__in=wanted[start : start + 500],
        )
        found += [[pk, held[:16]] for pk, held in rows.values_list("pk", "tokens_hash")]
    return found


def left(kept: Iterable[list[object]]) -> int:
    """How many of those encodings stand as they were."""
    known = {(pk, held) for pk, held in kept}
    wanted = [pk for pk, _ in known]
    count = 0
    for start in range(0, len(wanted), 500):
        rows = EncodedItem.objects.filter(pk__in=wanted[start : start + 500])
        count += sum((pk, held[:16]) in known for pk, held in rows.values_list("pk", "tokens_hash"))
    return count


__all__ = [
    "NO_FLOORS",
    "Losses",
    "Told",
    "between",
    "concerned",
    "deadline",
    "deadlines",
    "encodings",
    "homes_of",
    "left",
    "raised_now",
    "states",
    "told",
]
