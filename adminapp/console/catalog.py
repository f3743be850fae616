"""Event types and their attributes: what inherits what, and which key protects which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from adminapp.catalog import mapping, selectors, services
from adminapp.catalog.models import EventType
from adminapp.catalog.selectors import ResolvedAttribute, TypeNode
from adminapp.console import forms, risks
from adminapp.console.pages import in_domain, managers_only, show
from adminapp.core.errors import Conflict, Invalid, ServiceError
from adminapp.identity.models import Domain
from adminapp.policies import selectors as policies
from adminapp.privacy import selectors as privacy


@dataclass
class Branch:
    """A type with the types below it, for the nested list."""

    node: TypeNode
    children: list[Branch] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """One attribute of a type in the table."""

    found: ResolvedAttribute
    overlay: str

    @property
    def type(self) -> dict[str, Any]:
        declared: dict[str, Any] = self.found.attribute.type
        return declared


def branches(nodes: list[TypeNode]) -> list[Branch]:
    """The flat, ordered list of a tree as a nested one."""
    roots: list[Branch] = []
    path: list[Branch] = []
    for node in nodes:
        branch = Branch(node)
        del path[node.depth :]
        (path[-1].children if path else roots).append(branch)
        path.append(branch)
    return roots


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    nodes = selectors.tree(domain)
    return _page(request, domain, nodes, nodes[0] if nodes else None)


@require_safe
@in_domain
def detail(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    nodes = selectors.tree(domain)
    chosen = next((node for node in nodes if node.type.name == name), None)
    if chosen is None:
        raise Http404
    return _page(request, domain, nodes, chosen, named=True)


def _page(
    request: HttpRequest,
    domain: Domain,
    nodes: list[TypeNode],
    chosen: TypeNode | None,
    *,
    named: bool = False,
) -> HttpResponse:
    return show(
        request,
        "console/event_types/index.html",
        title=chosen.type.name if chosen and named else "Event types",
        area="event-types",
        question="What is published? A type has everything its parent has; it may add attributes "
        "and take keys away.",
        domain=domain,
        branches=branches(nodes),
        chosen=chosen,
        rows=list(_rows(domain, chosen)) if chosen else [],
        risks=risks.risks(request.user, domain, chosen.type) if chosen else [],
        is_split=bool(chosen) and chosen.type.name in privacy.active_splits(domain),
        policies=policies.policies(request.user, domain).filter(event_type__in=_line(nodes, chosen))
        if chosen
        else [],
    )


def _line(nodes: list[TypeNode], node: TypeNode | None) -> list[EventType]:
    """A type and everything above it: policies on any of them hold for it."""
    by_name = {each.type.name: each.type for each in nodes}
    line: list[EventType] = []
    row = node.type if node else None
    while row is not None and row not in line:
        line.append(row)
        row = by_name.get(mapping.parent_name(row) or "")
    return line


def _rows(domain: Domain, node: TypeNode) -> Iterator[Row]:
    groups = privacy.active_splits(domain).get(node.type.name, [])
    overlay = {name: group["overlay"] for group in groups for name in group["attributes"]}
    first = groups[0]["overlay"] if groups else ""
    for found in node.attributes:
        yield Row(found, overlay.get(found.attribute.name, first))


# -- keys of a type's own attributes ---------------------------------------------------------


@require_safe
@in_domain
@managers_only
def edit(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    kind = get_object_or_404(selectors.event_types(request.user, domain), name=name)
    return _edit_page(request, domain, kind)


@require_POST
@in_domain
@managers_only
def save(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    """Title, description, and which keys protect the attributes that the type itself declares."""
    kind = get_object_or_404(selectors.event_types(request.user, domain), name=name)
    form = forms.EventTypeForm(request.POST)
    if not form.is_valid():
        return _edit_page(request, domain, kind, form=form, status=422)
    attributes = [mapping.attribute(row) for row in kind.attributes.all()]
    for each in attributes:
        each["keys"] = request.POST.getlist(f"keys-{each['name']}")
    try:
        services.update_event_type(
            actor=request.user,
            event_type=kind,
            data={
                "title": form.cleaned_data["title"],
                "description": form.cleaned_data["description"],
            },
            attributes=attributes,
            expected_version=form.cleaned_data["version"],
        )
    except Conflict:
        messages.warning(
            request,
            "Somebody changed this type after you opened it. Nothing was saved; below is how it is "
            "now. Make your change again if it is still wanted.",
        )
        return _edit_page(request, domain, kind, status=409)
    except Invalid as error:
        return _edit_page(request, domain, kind, form=form, said=forms.said_by(error), status=422)
    except ServiceError as error:
        return _edit_page(request, domain, kind, form=form, said=[error.message], status=422)
    messages.success(request, f"Event type {kind.name} is saved.")
    return HttpResponseRedirect(reverse("console:event-type", args=[domain.name, kind.name]))


def _edit_page(
    request: HttpRequest,
    domain: Domain,
    kind: EventType,
    *,
    form: forms.EventTypeForm | None = None,
    said: list[str] | None = None,
    status: int = 200,
) -> HttpResponse:
    keys = list(selectors.attribute_keys(request.user, domain))
    initial = {"title": kind.title, "description": kind.description, "version": kind.version}
    posted = form is not None
    rows = [
        {
            "attribute": attribute,
            "held": set(request.POST.getlist(f"keys-{attribute.name}"))
            if posted
            else {key.name for key in attribute.keys.all()},
        }
        for attribute in kind.attributes.all()
    ]
    return show(
        request,
        "console/event_types/edit.html",
        title=f"Change {kind.name}",
        area="event-types",
        question="An attribute with keys travels encrypted; only agents that hold one of its keys "
        "can open it.",
        domain=domain,
        status=status,
        kind=kind,
        form=form or forms.EventTypeForm(initial=initial),
        rows=rows,
        keys=keys,
        said=said or [],
    )
