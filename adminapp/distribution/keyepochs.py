"""Epochs of attribute keys and hop keys, moved by the same rollouts as encodings."""

from __future__ import annotations

from collections.abc import Iterable

from adminapp.core.authority import get_authority
from adminapp.identity.models import Domain
from adminapp.trustgroups import selectors, services
from adminapp.trustgroups.models import KeyEpoch

State = KeyEpoch.State


def ensure(domain: Domain) -> None:
    """Have the authority make the keys that the domain needs and lacks."""
    held = KeyEpoch.objects.filter(domain=domain, state=State.CURRENT)
    # Asked first without a lock: a compile that needs no key must not queue behind changes.
    if set(selectors.group_refs(domain)) - set(held.values_list("group_ref", flat=True)):
        services.ensure_epochs(actor=None, domain=domain, authority=get_authority())


def staged(domain: Domain) -> list[KeyEpoch]:
    """New keys that wait to be rolled out."""
    return list(KeyEpoch.objects.filter(domain=domain, state=State.STAGED))


def domains_with_staged() -> list[int]:
    """Domains with such keys."""
    rows = KeyEpoch.objects.filter(state=State.STAGED).order_by().values_list("domain_id")
    return [domain_id for (domain_id,) in rows.distinct()]


def switch(fresh: Iterable[KeyEpoch]) -> None:
    """New keys seal from now on; the ones before still open."""
    for epoch in fresh:
        if epoch.state == State.STAGED:
            services.switch_epoch(actor=None, epoch=epoch)


def retire(fresh: Iterable[KeyEpoch]) -> None:
    """The keys before open nothing any more."""
    for epoch in fresh:
        older = KeyEpoch.objects.filter(
            domain=epoch.domain, group_ref=epoch.group_ref, state=State.DRAINING
        )
        for row in older:
            services.retire_epoch(actor=None, epoch=row)
