"""Classification of attributes, one or many at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from adminapp.audit import services as audit
from adminapp.catalog import compatibility, event_types
from adminapp.catalog import mapping as catalog_mapping
from adminapp.catalog import selectors as catalog
from adminapp.catalog.models import Attribute, EventType
from adminapp.core import versions
from adminapp.core.errors import Invalid, Problem
from adminapp.identity import permissions, ports
from adminapp.identity.models import Domain, User
from adminapp.identity.services import record_row
from policyengine.attributes import unknown


@dataclass(frozen=True)
class Class:
    """What somebody says of one attribute.

    Args:
        event_type: name of the type that declares it.
        attribute: its name.
        pia_class: its class.
        reason: why.
    """

    event_type: str
    attribute: str
    pia_class: str
    reason: str = ""


@audit.change
def classify_attribute(
    *,
    actor: User | None,
    attribute: Attribute,
    pia_class: str,
    reason: str = "",
    expected_version: int | None = None,
) -> Attribute:
    """Give an attribute its class, and with it the rows by which sub-types repeat it.

    Raises:
        Invalid: the gate refuses, because the class asks for a protection that is not there; or
            the attribute is inherited, and classified where it is declared.
    """
    row = versions.locked(attribute, expected_version)
    compatibility.remember(row.event_type.domain)
    _classify(actor, row, pia_class, reason)
    ports.verify_model(row.event_type.domain)
    return row


@audit.change
def classify_attributes(
    *, actor: User | None, domain: Domain, classes: Iterable[Class]
) -> list[Attribute]:
    """Give many attributes of a domain their classes, all or none.

    Raises:
        Invalid: with a pointer to each item that is wrong (`/items/3/attribute`).
    """
    wanted = list(classes)
    found = _found(domain, wanted)
    compatibility.remember(domain)
    for index, (row, item) in enumerate(zip(found, wanted, strict=True)):
        try:
            _classify(actor, versions.locked(row, None), item.pia_class, item.reason)
        except Invalid as error:
            raise error.below(f"/items/{index}") from error
    ports.verify_model(domain)
    return found


def _found(domain: Domain, wanted: list[Class]) -> list[Attribute]:
    rows = Attribute.objects.filter(event_type__domain=domain).select_related("event_type__domain")
    known = {(row.event_type.name, row.name): row for row in rows}
    problems: list[Problem] = []
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(wanted):
        place = (item.event_type, item.attribute)
        if place not in known:
            names = [".".join(each) for each in known]
            error = unknown("attribute", ".".join(place), names)
            problems.append(Problem.from_input_error(error, f"/items/{index}/attribute"))
        elif place in seen:
            problems.append(Problem(f"/items/{index}", f"`{'.'.join(place)}` is said twice"))
        seen.add(place)
    if problems:
        raise Invalid(problems)
    return [known[item.event_type, item.attribute] for item in wanted]


def _classify(actor: User | None, row: Attribute, pia_class: str, reason: str) -> None:
    above = catalog.inherited(row.event_type).get(row.name)
    permissions.require_change(actor, row.event_type.domain, "event-type", row.event_type.name)
    if above is not None:
        raise Invalid.at("", f"`{row.name}` is inherited; classify it in `{above.event_type.name}`")
    for each in (row, *catalog.repeated_below(row)):
        _say(actor, each, pia_class, reason)


def _say(actor: User | None, row: Attribute, pia_class: str, reason: str) -> None:
    """Write the class, and keep the changed type as a version."""
    kind: EventType = versions.locked(row.event_type, None)
    before = catalog_mapping.event_type(kind)
    event_types.keep_first(kind, before)
    row.pia_class, row.pia_reason = pia_class, reason
    versions.save(row)
    versions.save(kind)
    after = event_types.keep(actor, kind, f"{row.name} is {pia_class}")
    record_row(actor, kind.domain, "event-type.classified", kind, before=before, after=after)
