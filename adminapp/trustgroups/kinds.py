"""Trust groups as a kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adminapp.catalog.models import AttributeKey
from adminapp.core.errors import Invalid
from adminapp.identity import kinds
from adminapp.identity.kinds import Document, Kind
from adminapp.identity.models import Agent, Domain, Overlay, User
from adminapp.trustgroups import mapping, selectors, services
from adminapp.trustgroups.models import TrustGroup


def register_all() -> None:
    """Make the kinds of this area known."""
    kinds.register(TRUST_GROUP)


def _documents(domain: Domain) -> dict[str, Document]:
    rows = TrustGroup.objects.filter(domain=domain).select_related("overlay")
    held = rows.prefetch_related("members", "keys").order_by("name")
    return {row.name: mapping.trust_group(row) for row in held}


def _create(actor: User | None, domain: Domain, _key: str, document: Document) -> TrustGroup:
    return services.create_trust_group(
        actor=actor,
        domain=domain,
        name=document["name"],
        kind=document["kind"],
        overlay=_overlay(document),
        **_parts(domain, document),
    )


def _update(actor: User | None, row: TrustGroup, document: Document) -> TrustGroup:
    overlay = _overlay(document)
    if document["kind"] != row.kind or overlay != row.overlay:
        raise Invalid.at("/kind", "kind and overlay of a trust group cannot be changed")
    return services.update_trust_group(actor=actor, trust_group=row, **_parts(row.domain, document))


def _parts(domain: Domain, document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "members": _named(Agent, document["members"], "/members"),
        "keys": _keys(domain, document["keys"]),
    }


def _overlay(document: Mapping[str, Any]) -> Overlay | None:
    name = document["overlay"]
    return None if name is None else _named(Overlay, [name], "/overlay")[0]


def _keys(domain: Domain, names: list[str]) -> list[AttributeKey]:
    found = selectors.attribute_keys(domain, names)
    for name in names:
        if name not in found:
            raise Invalid.at("/keys", f"there is no attribute key `{name}`", "unknown")
    return [found[name] for name in names]


def _named(model: Any, names: list[str], pointer: str, **more: Any) -> list[Any]:
    found = {row.name: row for row in model.objects.filter(name__in=names, **more)}
    for name in names:
        if name not in found:
            what = model._meta.verbose_name
            raise Invalid.at(pointer, f"there is no {what} `{name}`", "unknown")
    return [found[name] for name in names]


def _normal(_domain: Domain | None, document: Document) -> Document:
    for name in ("members", "keys"):
        if not isinstance(document[name], list):
            raise Invalid.at(f"/{name}", "this is a list of names", "type")
    return {
        **document,
        "members": sorted(map(str, document["members"])),
        "keys": sorted(map(str, document["keys"])),
    }


TRUST_GROUP = Kind(
    name="trust-group",
    rank=50,
    documents=_documents,
    find=lambda domain, key: TrustGroup.objects.filter(domain=domain, name=key).first(),
    create=_create,
    update=_update,
    delete=lambda actor, row: services.delete_trust_group(actor=actor, trust_group=row),
    document=mapping.trust_group,
    defaults={"kind": TrustGroup.Kind.ATTRIBUTE.value, "overlay": None, "members": [], "keys": []},
    normal=_normal,
)
