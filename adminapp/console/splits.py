"""Split over overlays: which parts of an event travel where, so that no operator sees the whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from adminapp.catalog import selectors as catalog
from adminapp.catalog.models import EventType
from adminapp.console import diffs, forms
from adminapp.console.pages import in_domain, managers_only, show
from adminapp.core.errors import Conflict, Invalid, ServiceError
from adminapp.identity import selectors as identity
from adminapp.identity.models import Domain
from adminapp.privacy import checks, selectors, services
from adminapp.privacy.models import SplitPlan
from policyengine.privacy.gate import MUST_BE_ENCRYPTED

ANYWHERE = ""
_FIELD = re.compile(r"\Aoverlay-(?P<attribute>\w+)\Z")


@dataclass(frozen=True)
class Entry:
    """An event type with its split, for the list."""

    type: EventType
    plan: SplitPlan | None
    attributes: int
    quasi: list[str]


@dataclass(frozen=True)
class Placing:
    """One attribute and the overlay that it travels over; none: with the first group."""

    name: str
    pia_class: str
    encrypted: bool
    overlay: str


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    plans = {plan.event_type_id: plan for plan in selectors.split_plans(request.user, domain)}
    entries = [
        Entry(
            node.type,
            plans.get(node.type.pk),
            len(node.attributes),
            [a.attribute.name for a in node.attributes if a.attribute.pia_class == checks.QUASI],
        )
        for node in catalog.tree(domain)
        if node.origin != "inherited"
    ]
    return show(
        request,
        "console/splits/index.html",
        title="Split over overlays",
        area="splits",
        question="Attributes that together point at a person travel over different overlays, so "
        "that no operator sees them side by side.",
        domain=domain,
        entries=entries,
        overlays=identity.overlays(request.user),
    )


@require_safe
@in_domain
def edit(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    kind = _type(request, domain, name)
    plan = _plan(request, domain, kind)
    return _page(request, domain, kind, plan, _placed(plan.groups if plan else []))


@require_POST
@in_domain
@managers_only
def save(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    kind = _type(request, domain, name)
    plan = _plan(request, domain, kind)
    wanted = _wanted(request.POST)
    groups = _groups(request, kind, wanted)
    form = forms.VersionForm(request.POST)
    if plan is not None and not form.is_valid():
        return _page(request, domain, kind, plan, wanted, said=["The form was incomplete."])
    try:
        services.set_split(
            actor=request.user,
            event_type=kind,
            groups=groups,
            expected_version=form.cleaned_data["version"] if plan is not None else None,
        )
    except Conflict:
        return _page(
            request, domain, kind, plan, wanted, stale=_difference(plan, groups), status=409
        )
    except Invalid as error:
        return _page(request, domain, kind, plan, wanted, said=forms.said_by(error), status=422)
    except ServiceError as error:
        return _page(request, domain, kind, plan, wanted, said=[error.message], status=422)
    messages.success(request, f"Events of type {kind.name} now travel in {len(groups)} parts.")
    return HttpResponseRedirect(reverse("console:split", args=[domain.name, kind.name]))


@require_POST
@in_domain
@managers_only
def remove(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    kind = _type(request, domain, name)
    plan = get_object_or_404(selectors.split_plans(request.user, domain), event_type=kind)
    form = forms.VersionForm(request.POST)
    if not form.is_valid():
        messages.error(request, "The form was incomplete. Nothing was changed.")
        return HttpResponseRedirect(reverse("console:split", args=[domain.name, kind.name]))
    try:
        services.remove_split(
            actor=request.user, split_plan=plan, expected_version=form.cleaned_data["version"]
        )
    except ServiceError as error:
        messages.error(request, f"Nothing was changed: {error.message}.")
        return HttpResponseRedirect(reverse("console:split", args=[domain.name, kind.name]))
    messages.success(request, f"Events of type {kind.name} travel whole again.")
    return HttpResponseRedirect(reverse("console:splits", args=[domain.name]))


def _type(request: HttpRequest, domain: Domain, name: str) -> EventType:
    return get_object_or_404(catalog.event_types(request.user, domain), name=name)


def _plan(request: HttpRequest, domain: Domain, kind: EventType) -> SplitPlan | None:
    return selectors.split_plans(request.user, domain).filter(event_type=kind).first()


def _placed(groups: list[dict[str, Any]]) -> dict[str, str]:
    return {name: group["overlay"] for group in groups for name in group["attributes"]}


def _wanted(data: Any) -> dict[str, str]:
    """Attribute -> overlay, as the form has it."""
    return {
        match["attribute"]: str(value)
        for field, value in data.items()
        if (match := _FIELD.match(field)) and value != ANYWHERE
    }


def _groups(
    request: HttpRequest, kind: EventType, wanted: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Overlays in their own order, attributes in the type's.

    What is encrypted anyway may be left without a choice; it then stands in the first group.
    """
    concerned, _names = checks.placeable(kind)
    known = [overlay.name for overlay in identity.overlays(request.user)]
    used = [name for name in known if name in wanted.values()]
    used += sorted({name for name in wanted.values() if name not in known})
    first = used[0] if used else ANYWHERE
    chosen = {
        name: wanted.get(name, first if row.pia_class in MUST_BE_ENCRYPTED else ANYWHERE)
        for name, row in concerned.items()
    }
    return [
        {"overlay": overlay, "attributes": [n for n in concerned if chosen[n] == overlay]}
        for overlay in used
    ]


def _difference(plan: SplitPlan | None, groups: list[dict[str, Any]]) -> list[diffs.Change]:
    return diffs.between(_by_attribute(plan.groups if plan else []), _by_attribute(groups))


def _by_attribute(groups: list[dict[str, Any]]) -> dict[str, str]:
    return {name: f"overlay {overlay}" for name, overlay in _placed(groups).items()}


def _page(
    request: HttpRequest,
    domain: Domain,
    kind: EventType,
    plan: SplitPlan | None,
    placed: Mapping[str, str],
    *,
    said: list[str] | None = None,
    stale: list[diffs.Change] | None = None,
    status: int = 200,
) -> HttpResponse:
    placings = [
        Placing(
            name,
            row.pia_class,
            bool(row.keys.all()),
            placed.get(name, ANYWHERE),
        )
        for name, row in checks.placeable(kind)[0].items()
    ]
    return show(
        request,
        "console/splits/edit.html",
        title=f"Split of {kind.name}",
        area="splits",
        question="Choose the overlay that each attribute travels over. Every quasi-identifying "
        "attribute needs a place.",
        domain=domain,
        status=status,
        kind=kind,
        plan=plan,
        placings=placings,
        overlays=list(identity.overlays(request.user)),
        said=said or [],
        stale=stale,
        seen=_seen(placings),
    )


def _seen(placings: list[Placing]) -> dict[str, list[str]]:
    """Overlay -> what its operator can read: what travels there and is not encrypted."""
    overlays = [placing.overlay for placing in placings if placing.overlay]
    first = min(overlays, default="")
    seen: dict[str, list[str]] = {name: [] for name in sorted(set(overlays))}
    for placing in placings:
        if overlays and not placing.encrypted:
            # What has no place of its own travels with the first part.
            seen[placing.overlay or first].append(placing.name)
    return seen
