"""Whether a split separates what it must, and can be carried out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adminapp.catalog.mapping import event_types, parent_name
from adminapp.catalog.models import Attribute, EventType
from adminapp.catalog.selectors import domain_types, resolved_by_type
from adminapp.core.errors import Problem
from adminapp.identity.models import Agent, Domain, HomeAgent, Overlay, Principal
from adminapp.privacy.models import SplitPlan
from policyengine.attributes import unknown
from policyengine.errors import InputError

QUASI = Attribute.PiaClass.QUASI_IDENTIFYING
TELLING = (QUASI, Attribute.PiaClass.IDENTIFYING, Attribute.PiaClass.CONFIDENTIAL)
"""Classes of which a split must say where they travel."""


def split_plans(domain: Domain) -> Iterator[Problem]:
    """Splits that a change of the event types has broken."""
    rows = SplitPlan.objects.filter(
        event_type__domain=domain, event_type__retired=False, active=True
    )
    for row in rows.select_related("event_type__domain"):
        try:
            found = list(attribute_problems(row.event_type, row.groups))
        except InputError:
            return  # the event types themselves do not fit together; the catalog says so
        for problem in found:
            yield Problem("", f"split of `{row.event_type.name}`: {problem.message}", problem.kind)


def split_problems(event_type: EventType, groups: Any) -> list[Problem]:
    """Everything that stands against a split of an event type."""
    shape = list(_shape(groups))
    if shape:
        return shape
    return [*attribute_problems(event_type, groups), *overlay_problems(event_type.domain, groups)]


def _shape(groups: Any) -> Iterator[Problem]:
    if not isinstance(groups, list) or not groups:
        yield Problem("/groups", "a split has at least one group")
        return
    for index, group in enumerate(groups):
        pointer = f"/groups/{index}"
        if not isinstance(group, dict) or set(group) != {"overlay", "attributes"}:
            yield Problem(pointer, "a group is `overlay` and `attributes`")
        elif not isinstance(group["overlay"], str):
            yield Problem(f"{pointer}/overlay", "this is an overlay's name")
        elif not isinstance(group["attributes"], list) or not all(
            isinstance(name, str) for name in group["attributes"]
        ):
            yield Problem(f"{pointer}/attributes", "this is a list of names")


def attribute_problems(
    event_type: EventType, groups: Sequence[dict[str, Any]]
) -> Iterator[Problem]:
    """Unknown and doubled attributes; telling ones in no group.

    Attributes of sub-types count as well: their events are split in the same way unless they have
    a split of their own. Publishers send what stands in no group with the first part, so only
    attributes that tell nothing may be left out.
    """
    concerned, known = placeable(event_type)
    seen: set[str] = set()
    for index, group in enumerate(groups):
        for position, name in enumerate(group["attributes"]):
            pointer = f"/groups/{index}/attributes/{position}"
            if name not in known:
                yield Problem.from_input_error(unknown("attribute", name, known), pointer)
            elif name in seen:
                yield Problem(pointer, f"`{name}` stands in more than one group")
            seen.add(name)
    for name, attribute in concerned.items():
        if attribute.pia_class in TELLING and name not in seen:
            declarer = attribute.event_type.name
            where = "" if declarer == event_type.name else f" of `{declarer}`"
            yield Problem(
                "/groups", f"`{name}`{where} is {attribute.pia_class} and stands in no group"
            )


def placeable(event_type: EventType) -> tuple[dict[str, Attribute], set[str]]:
    """The attributes that a split is about, by name, and every name that it may place."""
    types = {row.name: row for row in domain_types(event_type.domain)}
    held = {
        name: {each.attribute.name: each.attribute for each in attributes}
        for name, attributes in resolved_by_type(types.values()).items()
    }
    below = event_types(types.values()).subtree(event_type.name)
    splits = set(
        SplitPlan.objects.filter(event_type__in=types.values(), active=True).values_list(
            "event_type__name", flat=True
        )
    )
    concerned: dict[str, Attribute] = dict(held[event_type.name])
    for name in below:
        if not _split_nearer(types, name, event_type.name, splits):
            concerned |= {each: held[name][each] for each in held[name] if each not in concerned}
    return concerned, {attribute for name in below for attribute in held[name]}


def _split_nearer(types: Mapping[str, EventType], name: str, top: str, splits: set[str]) -> bool:
    """Whether a sub-type, or a type between, has a split of its own."""
    while name != top:
        if name in splits:
            return True
        name = parent_name(types[name]) or top
    return False


def overlay_problems(domain: Domain, groups: Sequence[dict[str, Any]]) -> Iterator[Problem]:
    """Overlays that do not exist, come twice, have no agent, or are not home to everybody."""
    names = [group["overlay"] for group in groups]
    known = {overlay.name: overlay for overlay in Overlay.objects.all()}
    for index, name in enumerate(names):
        pointer = f"/groups/{index}/overlay"
        if name not in known:
            yield Problem.from_input_error(unknown("overlay", name, known), pointer)
        elif name in names[:index]:
            yield Problem(pointer, f"two groups travel on `{name}`: they would not be separate")
        else:
            yield from _homeless(domain, known[name], pointer)


def _homeless(domain: Domain, overlay: Overlay, pointer: str) -> Iterator[Problem]:
    if not Agent.objects.filter(overlay=overlay, state=Agent.State.ACTIVE).exists():
        yield Problem(pointer, f"overlay `{overlay.name}` has no active agent")
        return
    at_home = HomeAgent.objects.filter(overlay=overlay, principal__domain=domain)
    missing = (
        Principal.objects.filter(domain=domain, state=Principal.State.ACTIVE)
        .exclude(pk__in=at_home.values("principal"))
        .order_by("name")
        .values_list("name", flat=True)
    )
    if missing:
        listed = ", ".join(f"`{name}`" for name in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        yield Problem(pointer, f"no home agent on overlay `{overlay.name}` for {listed}{more}")
