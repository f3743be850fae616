"""The protection in force for every attribute, what the gate says of it, and what agents can carry.

An attribute is protected where it is declared: sub-types take keys away and change nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, cast

from adminapp.catalog import mapping
from adminapp.catalog.models import Attribute, EventType, RiskAcceptance
from policyengine.errors import GateError
from policyengine.events import AttributeSpec, TypeSpec
from policyengine.privacy import Protection, check_protection, preset
from policyengine.privacy import RiskAcceptance as Acceptance
from policyengine.privacy.protections import ProtectionKind

CLEAR: Final = Protection("clear")
UNDER_KEYS: Final = Protection("attribute key")
HIDDEN: Final = ("searchable", "order-preserving")
"""Kinds that clients apply: agents match on what they cannot read."""
ACCEPTABLE: Final = "order-preserving"
ACCEPTABLE_FOR: Final = ("identifying", "confidential")
"""What the gate lets pass when somebody accepts the risk in writing; nothing else."""


@dataclass(frozen=True)
class InForce:
    """The protection of an attribute.

    Args:
        protection: what is in force.
        declared_by: the type at which it is decided.
        by: "attribute", "profile" or "keys": what decided it.
    """

    protection: Protection
    declared_by: str
    by: str


@dataclass(frozen=True)
class Verdict:
    """What the gate says of one attribute.

    Args:
        reasons: why it refuses; empty when it does not.
        notes: what to know all the same.
    """

    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def in_force(rows: Iterable[EventType]) -> dict[str, dict[str, InForce]]:
    """Event type -> attribute (own and inherited) -> its protection.

    Args:
        rows: the types of a domain's effective model, which fit together.
    """
    found: dict[str, dict[str, InForce]] = {}
    profiles: dict[str, str] = {}
    for row in mapping.parents_first(rows):
        above = mapping.parent_name(row) or ""
        profiles[row.name] = row.profile or profiles.get(above, "")
        inherited = found.get(above, {})
        own = {
            each.name: _declared(each, row.name, profiles[row.name])
            for each in row.attributes.all()
            if each.name not in inherited
        }
        found[row.name] = {**inherited, **own}
    return found


def _declared(attribute: Attribute, type_name: str, profile: str) -> InForce:
    if attribute.protection:
        kind = cast(ProtectionKind, attribute.protection)
        return InForce(Protection(kind, attribute.sealed), type_name, "attribute")
    if profile:
        spec = mapping.attribute_spec(attribute)
        return InForce(preset(profile, [spec])[attribute.name], type_name, "profile")
    chosen = UNDER_KEYS if attribute.keys.all() else CLEAR
    return InForce(chosen, type_name, "keys")


def acceptances(rows: Iterable[EventType]) -> dict[str, Acceptance]:
    """What people accepted, by `type.attribute`, in one query."""
    pks = [row.pk for row in rows]
    found = RiskAcceptance.objects.filter(event_type__in=pks).select_related("event_type")
    return {str(row): acceptance(row) for row in found}


def acceptance(row: RiskAcceptance) -> Acceptance:
    """The engine's view of an acceptance."""
    return Acceptance(
        attribute=str(row),
        pia=row.pia_class,
        kind=cast(ProtectionKind, row.protection),
        who=row.accepted_by,
        why=row.justification,
        until=int(row.until.timestamp()),
    )


def judge(
    attribute: Attribute, held: InForce, accepted: Mapping[str, Acceptance], now: datetime
) -> Verdict:
    """Ask the privacy gate about an attribute."""
    label = f"{held.declared_by}.{attribute.name}"
    try:
        notes = check_protection(
            label,
            attribute.pia_class,
            held.protection,
            has_keys=bool(attribute.keys.all()),
            overlays=(),
            now=now.timestamp(),
            acceptances=[accepted[label]] if label in accepted else [],
        )
    except GateError as error:
        return Verdict(reasons=tuple(error.reasons))
    return Verdict(notes=notes)


def wire_specs(rows: Iterable[EventType], now: datetime) -> tuple[TypeSpec, ...]:
    """The types as bundles have them.

    An attribute that the gate refuses (a risk is accepted no longer) is left out: agents refuse
    events that hold it.
    """
    # INVARIANT: what is not protected as its class asks for is in no bundle.
    known = list(rows)
    held, accepted = in_force(known), acceptances(known)
    missing = {
        (row.name, each.name)
        for row in known
        for each in row.attributes.all()
        if not _carried(each, held[row.name][each.name], accepted, now)
    }
    return tuple(_on_the_wire(spec, held[spec.name], missing) for spec in mapping.type_specs(known))


def _carried(
    attribute: Attribute, held: InForce, accepted: Mapping[str, Acceptance], now: datetime
) -> bool:
    return not judge(attribute, held, accepted, now).reasons


def _on_the_wire(
    spec: TypeSpec, held: Mapping[str, InForce], missing: set[tuple[str, str]]
) -> TypeSpec:
    kept = [
        _protected(each, held[each.name].protection)
        for each in spec.attributes
        if (spec.name, each.name) not in missing
        and (held[each.name].declared_by, each.name) not in missing
    ]
    return replace(spec, attributes=tuple(kept))


def _protected(spec: AttributeSpec, protection: Protection) -> AttributeSpec:
    if protection.kind == "clear":
        return replace(spec, keys=())
    if protection.kind in HIDDEN:
        return replace(spec, blind=protection.kind, sealed=protection.sealed)
    return spec
