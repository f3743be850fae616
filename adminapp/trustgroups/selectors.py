"""Reads of trust groups: who holds which key, in which epoch."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from adminapp.catalog.models import AttributeKey
from adminapp.identity.models import Agent, Domain, Overlay
from adminapp.identity.selectors import serving_agents
from adminapp.trustgroups import mapping
from adminapp.trustgroups.models import KeyEpoch, TrustGroup

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


def agents_holding(key: AttributeKey) -> QuerySet[Agent]:
    """Active agents that a trust group gives this attribute key."""
    return _active(Q(trust_groups__keys=key, trust_groups__kind=TrustGroup.Kind.ATTRIBUTE))


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
        key = AttributeKey.objects.filter(domain=domain, name=name).first()
        return Agent.objects.none() if key is None else agents_holding(key)
    overlay = Overlay.objects.filter(name=name).first()
    return Agent.objects.none() if overlay is None else agents_on_overlay(domain, overlay)


def group_refs(domain: Domain) -> list[str]:
    """Every key that the domain needs: one an attribute key, one an overlay it travels on."""
    keys = AttributeKey.objects.filter(domain=domain).values_list("name", flat=True)
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
