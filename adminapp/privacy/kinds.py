"""Splits as a kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adminapp.catalog.models import EventType
from adminapp.core.errors import Invalid
from adminapp.identity import kinds
from adminapp.identity.kinds import Document, Kind
from adminapp.identity.models import Domain, User
from adminapp.privacy import mapping, services
from adminapp.privacy.models import SplitPlan


def register_all() -> None:
    """Make the kinds of this area known."""
    kinds.register(SPLIT)


def _documents(domain: Domain) -> dict[str, Document]:
    rows = SplitPlan.objects.filter(event_type__domain=domain).select_related("event_type")
    return {
        row.event_type.name: mapping.split_plan(row) for row in rows.order_by("event_type__name")
    }


def _find(domain: Domain, key: str) -> SplitPlan | None:
    return SplitPlan.objects.filter(event_type__domain=domain, event_type__name=key).first()


def _create(actor: User | None, domain: Domain, key: str, document: Mapping[str, Any]) -> SplitPlan:
    event_type = EventType.objects.filter(domain=domain, name=key).first()
    if event_type is None:
        raise Invalid.at("/event_type", f"there is no event type `{key}`", "unknown")
    return _set(actor, event_type, document)


def _update(actor: User | None, row: SplitPlan, document: Mapping[str, Any]) -> SplitPlan:
    return _set(actor, row.event_type, document)


def _set(actor: User | None, event_type: EventType, document: Mapping[str, Any]) -> SplitPlan:
    return services.set_split(
        actor=actor,
        event_type=event_type,
        groups=document["groups"],
        active=document["active"],
    )


SPLIT = Kind(
    name="split",
    rank=70,
    documents=_documents,
    find=_find,
    create=_create,
    update=_update,
    delete=lambda actor, row: services.remove_split(actor=actor, split_plan=row),
    document=mapping.split_plan,
    required=("event_type", "groups"),
    defaults={"active": True},
    key=lambda document: str(document.get("event_type", "")),
)
