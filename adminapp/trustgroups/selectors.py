"""Reads of trust groups: who holds which key, in which epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from adminapp.catalog.models import AttributeKey
from adminapp.identity.lineage import lineage, nearest
from adminapp.identity.models import Agent, Domain, Overlay
from adminapp.identity.selectors import serving_agents
from adminapp.trustgroups import mapping
from adminapp.trustgroups.models import HoldingPeriod, KeyEpoch, MembershipPeriod, TrustGroup

State = KeyEpoch.State
LIVE = (State.STAGED, State.CURRENT, State.DRAINING)


def trust_groups(user: Any, domain: Domain | None = None) -> QuerySet[TrustGroup]:
    found = (
        TrustGroup.objects.visible_to(user)
        .select_related("domain", "overlay")
        .prefetch_related("members", "keys")
    )
    return found if domain is None else found.filter(domain=domain)


def key_epochs(user: Any, domain: Domain | None = None) -> QuerySet[KeyEpoch]:
    found = KeyEpoch.objects.visible_to(user).select_related("domain")
    return found if domain is None else found.filter(domain=domain)


def live_epochs(domain: Domain) -> QuerySet[KeyEpoch]:
    """Epochs that somebody still opens or seals under."""
    return KeyEpoch.objects.filter(domain=domain, state__in=LIVE)


def agents_holding(key: AttributeKey, domain: Domain | None = None) -> QuerySet[Agent]:
    """Active agents that a trust group gives this attribute key.

    Args:
        domain: the key's own, or one below that inherits its name. A key is made anew in each:
            whoever is trusted above is not trusted below by that.
    """
    return _active(_given(domain or key.domain, key.name))


def _given(domain: Domain, name: str) -> Q:
    return Q(
        trust_groups__domain=domain,
        trust_groups__keys__name=name,
        trust_groups__kind=TrustGroup.Kind.ATTRIBUTE,
    )


def agents_on_overlay(domain: Domain, overlay: Overlay) -> QuerySet[Agent]:
    """Active agents that hold an overlay's hop key for a domain.

    The members of the overlay's trust group where the domain has one, else all of the overlay.
    """
    groups = TrustGroup.objects.filter(domain=domain, kind=TrustGroup.Kind.OVERLAY, overlay=overlay)
    if groups.exists():
        return _active(Q(overlay=overlay, trust_groups__in=groups))
    return _active(Q(overlay=overlay))


def agents_for(domain: Domain, group_ref: str) -> QuerySet[Agent]:
    """Active agents that hold the key of a group reference (`key:...` or `overlay:...`)."""
    kind, _separator, name = group_ref.partition(":")
    if f"{kind}:" == mapping.KEY:
        known = name in attribute_key_names(domain)
        return _active(_given(domain, name)) if known else Agent.objects.none()
    overlay = Overlay.objects.filter(name=name).first()
    return Agent.objects.none() if overlay is None else agents_on_overlay(domain, overlay)


def attribute_key_names(domain: Domain) -> frozenset[str]:
    """Names of the keys that a domain has or inherits; each has epochs of its own in each."""
    rows = AttributeKey.objects.filter(domain__in=lineage(domain))
    return frozenset(rows.values_list("name", flat=True))


def attribute_keys(domain: Domain, names: Iterable[str]) -> dict[str, AttributeKey]:
    """Keys of a domain or of those above it, the nearest of each name."""
    rows = AttributeKey.objects.filter(domain__in=lineage(domain), name__in=list(names))
    return nearest(rows, lineage(domain))


def memberships(group: TrustGroup) -> QuerySet[MembershipPeriod]:
    """Who was a member of a group from when to when, and why; ended ones included."""
    rows = MembershipPeriod.objects.filter(group=group)
    return rows.select_related("agent__overlay").order_by("id")


def refs_of(group: TrustGroup) -> list[str]:
    """References of the keys that a group gives its members."""
    if group.overlay is not None:
        return [mapping.overlay_ref(group.overlay.name)]
    return sorted(mapping.key_ref(key.name) for key in group.keys.all())


@dataclass(frozen=True)
class Holder:
    """An agent that was trusted with one generation of a key.

    Args:
        agent: who.
        epoch: which generation.
        since: when it was entitled to this generation first.
        until: when it was no longer, or None.
        why: how it came to the key.
        ended_why: how it lost it, "" as long as it has it.
    """

    agent: Agent
    epoch: KeyEpoch
    since: datetime
    until: datetime | None
    why: str
    ended_why: str


def holders(domain: Domain, group_ref: str, *, past: bool = False) -> list[Holder]:
    """Which agents hold which epoch of a key since when, in three queries.

    Args:
        past: whether to tell also of what is over.
    """
    periods = HoldingPeriod.objects.filter(domain=domain, group_ref=group_ref)
    epochs = KeyEpoch.objects.filter(domain=domain, group_ref=group_ref).order_by("number")
    if not past:
        periods, epochs = periods.open(), epochs.filter(state__in=LIVE)
    generations = list(epochs)
    found = [
        _held(period, epoch)
        for period in periods.select_related("agent__overlay").order_by("agent__name", "since")
        for epoch in generations
        if _overlap(period, epoch)
    ]
    return sorted(found, key=lambda each: (each.epoch.number, each.agent.name, each.since))


def _overlap(period: HoldingPeriod, epoch: KeyEpoch) -> bool:
    starts_in_time = epoch.retired_at is None or period.since < epoch.retired_at
    return starts_in_time and (period.until is None or epoch.created < period.until)


def _held(period: HoldingPeriod, epoch: KeyEpoch) -> Holder:
    ends = [moment for moment in (period.until, epoch.retired_at) if moment is not None]
    lost_first = period.until is not None and period.until == min(ends, default=None)
    return Holder(
        agent=period.agent,
        epoch=epoch,
        since=max(period.since, epoch.created),
        until=min(ends, default=None),
        why=period.why,
        ended_why=period.ended_why if lost_first else "the epoch was retired" if ends else "",
    )


def group_refs(domain: Domain) -> list[str]:
    """Every key that the domain needs: one an attribute key, one an overlay it travels on."""
    keys = attribute_key_names(domain)
    overlays = set(serving_agents(domain).values_list("overlay__name", flat=True))
    overlays |= set(
        TrustGroup.objects.filter(domain=domain, overlay__isnull=False).values_list(
            "overlay__name", flat=True
        )
    )
    return [
        *(mapping.key_ref(name) for name in sorted(keys)),
        *(mapping.overlay_ref(name) for name in sorted(overlays)),
    ]


def _active(condition: Q) -> QuerySet[Agent]:
    return (
        Agent.objects.filter(condition, state=Agent.State.ACTIVE)
        .select_related("overlay")
        .distinct()
        .order_by("name")
    )
