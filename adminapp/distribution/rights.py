"""What revocations took away, kept so that agents' decision logs can be held against them.

It is written down at T0, from what everybody could do before and after. Who was given a right
again later is noted while the first revision is compiled that says so: agents enforce compiled
revisions and no others, so a decision under an earlier one was not made by the new grant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max, Q, QuerySet

from adminapp.distribution import decisionlogs
from adminapp.distribution.batches import SIZE, chunked
from adminapp.distribution.endings import Kind, Target
from adminapp.distribution.losses import Losses
from adminapp.distribution.models import Revocation, RevokedRight
from adminapp.identity.models import Agent, Domain, Principal
from adminapp.identity.selectors import enrolled
from adminapp.policies import reach
from adminapp.policies.ended import Ended, ended, giving
from adminapp.policies.reach import Reach
from adminapp.policies.selectors import effective_rows

Party = RevokedRight.Party
State = RevokedRight.State
_OF_CLIENTS = frozenset({Kind.PRINCIPAL, Kind.CLIENT_KEY})
_DENIED_FOR_GOOD = frozenset({Kind.PRINCIPAL})


def of_target(
    target: Target, domains: Iterable[Domain], raised: Mapping[int, int]
) -> list[RevokedRight]:
    """What ends of somebody as a whole, for kinds that policies say nothing of.

    Args:
        target: what was revoked: a principal, a client's key, an agent, or a member.
        domains: those in which it can take something away.
        raised: the new revision of each domain that has one.
    """
    if target.kind in _OF_CLIENTS:
        assert target.principal is not None  # both kinds are about one
        names = [target.principal.handle]
        return [
            RevokedRight(domain=domain, names=names, floor=raised.get(domain.pk, 0))
            for domain in domains
        ]
    assert target.agent is not None  # the others are about an agent
    floor = raised[target.domain.pk]
    # A member that leaves a group waits for one revision, and serves on under that.
    again = {target.agent.name: floor} if target.kind == Kind.MEMBER else {}
    right = RevokedRight(
        domain=target.domain, party=Party.AGENT, names=[target.agent.name], floor=floor, again=again
    )
    return [right]


def of_losses(
    lost: Iterable[Losses],
    before: Mapping[int, Reach],
    after: Mapping[int, Reach],
    raised: Mapping[int, int],
) -> list[RevokedRight]:
    """What ends by policies, in each domain: who had which type by which of them."""
    found: list[RevokedRight] = []
    for each in lost:
        pk, floor = each.domain.pk, raised.get(each.domain.pk, 0)
        numbers = {row.name: row.pk for row in effective_rows(each.domain)}
        for end in ended(before[pk], after[pk], each.lines):
            found += _of_end(each.domain, end, numbers[end.policy], floor)
        if each.handles is None:
            found.append(RevokedRight(domain=each.domain, floor=floor, more=True))
    return found


def _of_end(domain: Domain, end: Ended, number: int, floor: int) -> Iterator[RevokedRight]:
    name = f"policy-{number}a{end.agreement}" if end.agreement else f"policy-{number}"
    for partly, names in ((False, end.wholly), (True, end.partly)):
        if names:
            yield RevokedRight(
                domain=domain,
                names=list(names),
                action=end.action,
                type=end.type,
                policy=name,
                floor=floor,
                partly=partly,
            )


def keep(revocation: Revocation, rights: Iterable[RevokedRight], own: datetime | None) -> None:
    """Write down what a revocation took away; its notices are there already.

    Args:
        own: until when an agent that is itself revoked may have a lease from before.
    """
    rows = list(rights)
    latest = dict(revocation.notices.order_by().values_list("domain").annotate(Max("deadline")))
    for row in rows:
        lease = timedelta(seconds=row.domain.lease_seconds)
        moments = [revocation.created + lease, latest.get(row.domain_id), own]
        row.revocation = revocation
        row.until = max(moment for moment in moments if moment is not None)
        row.state = State.WATCHED if row.domain.decision_days else State.UNLOGGED
    RevokedRight.objects.bulk_create(rows, batch_size=SIZE)


# -- what is given again ------------------------------------------------------------------------


def expire(domain: Domain) -> int:
    """Watch no longer what was revoked before the oldest decisions that are kept."""
    old = Q(revocation__created__lt=decisionlogs.oldest_kept(domain))
    return watched(domain).filter(old).update(state=State.EXPIRED)


def watched(domain: Domain) -> QuerySet[RevokedRight]:
    """What logs of a domain are held against."""
    return RevokedRight.objects.filter(domain=domain, state=State.WATCHED)


def held_again(domain: Domain) -> dict[int, list[str]]:
    """Who has again what was revoked, as policies are now: names by the row that they are in."""
    rows = watched(domain).filter(partly=False, more=False)
    rows = rows.exclude(revocation__kind__in=_DENIED_FOR_GOOD).select_related("revocation")
    waiting = {row: sorted(set(row.names) - row.again.keys()) for row in rows}
    waiting = {row: names for row, names in waiting.items() if names}
    if not waiting:
        return {}
    by_policy = {row: names for row, names in waiting.items() if row.policy}
    found = _given(domain, by_policy) if by_policy else {}
    for row, names in waiting.items():
        if row.party == Party.AGENT:
            found[row.pk] = _agents(names)
        elif not row.policy:
            found[row.pk] = _enrolled(names)
    return {pk: names for pk, names in found.items() if names}


def _given(domain: Domain, waiting: Mapping[RevokedRight, list[str]]) -> dict[int, list[str]]:
    handles = sorted({name for names in waiting.values() for name in names})
    only = _numbers(handles) if len(handles) <= SIZE else None
    parts = {part.number: part for part in reach.take(domain, only=only).parts}
    names = {row.pk: row.name for row in effective_rows(domain)}
    found: dict[int, list[str]] = {}
    for row, wanted in waiting.items():
        number, _, agreement = row.policy.removeprefix("policy-").partition("a")
        part, policy = parts.get(int(agreement or 0)), names.get(int(number))
        if part is not None and policy is not None:
            found[row.pk] = sorted(giving(part, row.action, row.type, policy, wanted))
    return found


def _numbers(handles: Iterable[str]) -> list[int]:
    rows = Principal.objects.filter(handle__in=list(handles), state=Principal.State.ACTIVE)
    return list(rows.values_list("pk", flat=True))


def _enrolled(handles: Iterable[str]) -> list[str]:
    rows = Principal.objects.filter(enrolled(), state=Principal.State.ACTIVE)
    return [
        handle
        for chunk in chunked(handles)
        for handle in rows.filter(handle__in=chunk).values_list("handle", flat=True)
    ]


def _agents(names: Iterable[str]) -> list[str]:
    rows = Agent.objects.filter(name__in=list(names), state=Agent.State.ACTIVE)
    return list(rows.values_list("name", flat=True))


@transaction.atomic
def note_again(found: Mapping[int, Iterable[str]], revision: int) -> None:
    """From this revision on those who have something again may use it.

    Whoever had it again once is left alone: later rights are no business of this revocation.

    Args:
        found: from `held_again`, read while the domain stood at `revision`.
    """
    for row in RevokedRight.objects.select_for_update().filter(pk__in=list(found)).order_by("pk"):
        row.again = dict.fromkeys(found[row.pk], revision) | row.again
        row.save(update_fields=["again"])
