"""The history of who was trusted with what: told by comparing before and after a change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.utils import timezone

from adminapp.core.journal import Journal
from adminapp.identity.lineage import descendants
from adminapp.identity.models import Domain
from adminapp.trustgroups import mapping
from adminapp.trustgroups.models import HoldingPeriod, MembershipPeriod, TrustGroup

Members = set[tuple[int, int]]  # group, agent
Holdings = set[tuple[str, int]]  # reference of the key, agent


@contextmanager
def noted(domain: Domain, why: str) -> Iterator[None]:
    """Note who came and who went in a change of the domain's groups."""
    members, holdings = _members(domain), _holdings(domain)
    yield
    _note_members(domain, members, _members(domain), why[:200])
    _note_holdings(domain, holdings, _holdings(domain), why[:200])


def settle(book: Journal) -> None:
    """An attribute key that was deleted is held by nobody, here and in the domains below."""
    names = {item.domain for item in book.items if item.action == "attribute-key.deleted"}
    if not names:
        return
    for domain in Domain.objects.filter(name__in=names):
        for each in (domain, *descendants(domain)):
            known = HoldingPeriod.objects.open().filter(domain=each)
            held = set(known.values_list("group_ref", "agent_id"))
            _note_holdings(each, held, held & _holdings(each), "the key was deleted")


def _members(domain: Domain) -> Members:
    through = TrustGroup.members.through.objects.filter(trustgroup__domain=domain)
    return set(through.values_list("trustgroup_id", "agent_id"))


def _holdings(domain: Domain) -> Holdings:
    """Several groups may give one key: it is lost with the last of them."""
    rows = TrustGroup.objects.filter(
        domain=domain,
        kind=TrustGroup.Kind.ATTRIBUTE,
        keys__isnull=False,
        members__isnull=False,
    )
    pairs = rows.order_by().values_list("keys__name", "members").distinct()
    found = {(mapping.key_ref(name), agent) for name, agent in pairs}
    hops = TrustGroup.objects.filter(
        domain=domain, kind=TrustGroup.Kind.OVERLAY, members__isnull=False
    )
    pairs = hops.order_by().values_list("overlay__name", "members").distinct()
    return found | {(mapping.overlay_ref(name), agent) for name, agent in pairs}


def _note_members(domain: Domain, before: Members, after: Members, why: str) -> None:
    now = timezone.now()
    for group, agent in sorted(before - after):
        MembershipPeriod.objects.open().filter(group_id=group, agent_id=agent).update(
            until=now, ended_why=why
        )
    names = dict(TrustGroup.objects.filter(domain=domain).values_list("pk", "name"))
    MembershipPeriod.objects.bulk_create(
        MembershipPeriod(
            domain=domain,
            group_id=group,
            group_name=names[group],
            agent_id=agent,
            since=now,
            why=why,
        )
        for group, agent in sorted(after - before)
    )


def _note_holdings(domain: Domain, before: Holdings, after: Holdings, why: str) -> None:
    now = timezone.now()
    for ref, agent in sorted(before - after):
        HoldingPeriod.objects.open().filter(domain=domain, group_ref=ref, agent_id=agent).update(
            until=now, ended_why=why
        )
    HoldingPeriod.objects.bulk_create(
        HoldingPeriod(domain=domain, group_ref=ref, agent_id=agent, since=now, why=why)
        for ref, agent in sorted(after - before)
    )
