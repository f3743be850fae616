"""Principals: who takes part, what may they do, and how are their rights ended?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import django_filters
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from adminapp.catalog import selectors as catalog
from adminapp.catalog.models import SubjectAttribute
from adminapp.console import diffs, forms, rolesessions
from adminapp.console.pages import Crumb, in_domain, managers_only, show
from adminapp.console.tables import PrincipalTable, configured
from adminapp.core.errors import Conflict, Invalid, Problem, ServiceError
from adminapp.distribution import selectors as distribution
from adminapp.distribution import usage
from adminapp.identity import ports, selectors, services
from adminapp.identity.models import Agent, Domain, Overlay, Principal
from adminapp.policies import reach
from adminapp.roles import selectors as roles
from adminapp.roles import services as role_services
from policyengine.errors import InputError
from policyengine.roles import ground_atom


class PrincipalFilter(django_filters.FilterSet):
    """What the list may be narrowed to."""

    name = django_filters.CharFilter(label="Name", lookup_expr="icontains")
    kind = django_filters.ChoiceFilter(
        label="Kind", empty_label="Any", choices=Principal.Kind.choices
    )
    state = django_filters.ChoiceFilter(
        label="State", empty_label="Any", choices=Principal.State.choices
    )

    class Meta:
        model = Principal
        fields: list[str] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.form.fields.values():
            forms.style(field.widget)


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    found = selectors.principals(request.user, domain)
    narrowed = PrincipalFilter(request.GET, queryset=found)
    return show(
        request,
        "console/principals/index.html",
        title="Principals",
        area="principals",
        question="Who publishes and who receives?",
        domain=domain,
        parts={"rows": "console/principals/_rows.html"},
        filter=narrowed,
        table=configured(request, PrincipalTable(narrowed.qs)),
        any=found.exists(),
    )


@require_safe
@in_domain
def detail(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    return _detail(request, domain, find(request, domain, name))


def _detail(
    request: HttpRequest,
    domain: Domain,
    principal: Principal,
    *,
    appoint: forms.AppointForm | None = None,
    status: int = 200,
) -> HttpResponse:
    held = roles.appointments(request.user, domain).filter(principal=principal)
    return show(
        request,
        "console/principals/detail.html",
        title=principal.name,
        area="principals",
        question=f"A {principal.kind} of {domain.title or domain.name}.",
        domain=domain,
        status=status,
        principal=principal,
        active=principal.state == Principal.State.ACTIVE,
        access=list(reach.take(domain, only=[principal.pk]).effective(principal.name)),
        roles=sorted(roles.active_roles(principal))
        if principal.state == Principal.State.ACTIVE
        else [],
        appointments=held.order_by("-starts", "-pk"),
        appoint=appoint or forms.AppointForm(known=_known_appointments(domain)),
        revocation=distribution.revocations(request.user)
        .filter(principal=principal, kind="principal")
        .first(),
        now=timezone.now(),
        subscriptions=usage.of_subscriptions(domain, principal.handle),
        sessions=rolesessions.sessions(request.user, principal),
        by_session=roles.by_session(domain),
    )


def find(request: HttpRequest, domain: Domain, name: str) -> Principal:
    """The principal of an address, if the user may see it."""
    return get_object_or_404(selectors.principals(request.user, domain), name=name)


def _known_appointments(domain: Domain) -> list[str]:
    """What the domain's role rules ask for."""
    return sorted(
        {
            each.atom.name
            for rule in roles.rules(domain)
            for each in rule.credentials
            if each.kind == "appointment"
        }
    )


# -- appointments ----------------------------------------------------------------------------


@require_POST
@in_domain
@managers_only
def appoint(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    principal = find(request, domain, name)
    form = forms.AppointForm(request.POST, known=_known_appointments(domain))
    if not form.is_valid():
        return _detail(request, domain, principal, appoint=form, status=422)
    try:
        role_services.appoint(
            actor=request.user,
            principal=principal,
            **_appointment(form.cleaned_data["name"]),
            ends=form.cleaned_data["ends"],
        )
    except Invalid as error:
        form.take(error.problems)
        return _detail(request, domain, principal, appoint=form, status=422)
    messages.success(request, f"{principal.name} is appointed {form.cleaned_data['name']}.")
    return HttpResponseRedirect(reverse("console:principal", args=[domain.name, name]))


def _appointment(text: str) -> dict[str, Any]:
    """Name and parameters of an appointment such as `badge(7, West)`."""
    try:
        atom = ground_atom(text, "appointment")
    except InputError as error:
        raise Invalid([Problem.from_input_error(error, "/name")]) from error
    return {"name": atom.name, "parameters": atom.terms}


@require_POST
@in_domain
@managers_only
def end_appointment(request: HttpRequest, domain: Domain, name: str, pk: int) -> HttpResponse:
    principal = find(request, domain, name)
    held = roles.appointments(request.user, domain).filter(principal=principal)
    appointment = get_object_or_404(held, pk=pk)
    form = forms.VersionForm(request.POST)
    back = HttpResponseRedirect(reverse("console:principal", args=[domain.name, name]))
    if not form.is_valid():
        messages.error(request, "The form was incomplete. Nothing was changed.")
        return back
    try:
        role_services.end_appointment(
            actor=request.user,
            appointment=appointment,
            expected_version=form.cleaned_data["version"],
        )
    except ServiceError as error:
        messages.error(request, f"Nothing was changed: {error.message}.")
    else:
        messages.success(request, f"Appointment {appointment.name} has ended.")
    return back


# -- making and changing ---------------------------------------------------------------------


@dataclass(frozen=True)
class ValueField:
    """The field of one declared subject attribute."""

    name: str
    declared: dict[str, Any]
    value: str
    error: str = ""


@dataclass(frozen=True)
class HomeField:
    """The choice of a home agent on one overlay."""

    overlay: Overlay
    agents: list[Agent]
    chosen: str


@require_http_methods(["GET", "HEAD", "POST"])
@in_domain
@managers_only
def create(request: HttpRequest, domain: Domain) -> HttpResponse:
    if request.method != "POST":
        return _edit_page(request, domain, None, forms.PrincipalForm())
    return _save(request, domain, None)


@require_http_methods(["GET", "HEAD", "POST"])
@in_domain
@managers_only
def edit(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    principal = find(request, domain, name)
    if request.method != "POST":
        initial = {
            "name": principal.name,
            "kind": principal.kind,
            "version": principal.version,
        }
        return _edit_page(request, domain, principal, forms.PrincipalForm(initial=initial))
    return _save(request, domain, principal)


def _save(request: HttpRequest, domain: Domain, principal: Principal | None) -> HttpResponse:
    form = forms.PrincipalForm(request.POST)
    declared = list(catalog.subject_attributes(request.user, domain))
    attributes, errors = _values(request.POST, declared)
    if not form.is_valid() or errors:
        return _edit_page(request, domain, principal, form, errors=errors, status=422)
    data = {
        "name": form.cleaned_data["name"],
        "kind": form.cleaned_data["kind"],
        "attributes": attributes,
    }
    try:
        ports.verify_subject(domain, attributes)
        saved = _store(request, domain, principal, data, form.cleaned_data["version"])
    except Conflict:
        assert principal is not None
        return _stale(request, domain, find(request, domain, principal.name), data)
    except Invalid as error:
        form.take(error.problems)
        return _edit_page(request, domain, principal, form, status=422)
    except ServiceError as error:
        form.add_error(None, error.message)
        return _edit_page(request, domain, principal, form, status=422)
    messages.success(request, f"{saved.name} is saved.")
    return HttpResponseRedirect(reverse("console:principal", args=[domain.name, saved.name]))


def _store(
    request: HttpRequest,
    domain: Domain,
    principal: Principal | None,
    data: dict[str, Any],
    version: int | None,
) -> Principal:
    agents = list(selectors.agents(request.user).filter(name__in=_chosen(request.POST).values()))
    if principal is None:
        return services.create_principal(actor=request.user, domain=domain, agents=agents, **data)
    return services.update_principal(
        actor=request.user,
        principal=principal,
        data=data,
        agents=agents,
        expected_version=version or 0,
    )


def _stale(
    request: HttpRequest, domain: Domain, fresh: Principal, wanted: dict[str, Any]
) -> HttpResponse:
    current = {"name": fresh.name, "kind": fresh.kind, "attributes": fresh.attributes}
    data = request.POST.copy()
    data["version"] = str(fresh.version)
    retry = forms.PrincipalForm(data)
    retry.is_valid()
    return _edit_page(
        request, domain, fresh, retry, stale=diffs.between(current, wanted), status=409
    )


def _values(data: Any, declared: list[SubjectAttribute]) -> tuple[dict[str, Any], dict[str, str]]:
    """What was typed for each declared attribute, converted; and what could not be."""
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for row in declared:
        typed = data.get(f"value-{row.name}", "").strip()
        if not typed:
            continue
        try:
            values[row.name] = _converted(row.type["type"], typed)
        except ValueError:
            errors[row.name] = "This is not a number."
    return values, errors


def _converted(kind: str, typed: str) -> Any:
    if kind == "int":
        return int(typed)
    if kind == "float":
        return float(typed)
    return typed == "true" if kind == "bool" else typed


def _chosen(data: Any) -> dict[str, str]:
    """Overlay -> name of the chosen home agent."""
    return {
        field.removeprefix("home-"): value
        for field, value in data.items()
        if field.startswith("home-") and value
    }


def _edit_page(
    request: HttpRequest,
    domain: Domain,
    principal: Principal | None,
    form: forms.PrincipalForm,
    *,
    errors: dict[str, str] | None = None,
    stale: list[diffs.Change] | None = None,
    status: int = 200,
) -> HttpResponse:
    return show(
        request,
        "console/principals/edit.html",
        title=f"Change {principal.name}" if principal else "New principal",
        area="principals",
        question="What policies may know of it, and which agent serves it on each overlay.",
        domain=domain,
        trail=trail(principal),
        status=status,
        principal=principal,
        form=form,
        values=_value_fields(request, domain, principal, errors or {}),
        homes=_home_fields(request, principal),
        stale=stale,
    )


def trail(principal: Principal | None) -> tuple[Crumb, ...]:
    """Breadcrumbs from the list to a principal's own page."""
    if principal is None:
        return ()
    url = reverse("console:principal", args=[principal.domain.name, principal.name])
    return (Crumb(principal.name, url),)


def _value_fields(
    request: HttpRequest, domain: Domain, principal: Principal | None, errors: dict[str, str]
) -> list[ValueField]:
    held = principal.attributes if principal else {}
    posted = request.POST if request.method == "POST" else None
    fields = []
    for row in catalog.subject_attributes(request.user, domain):
        value = held.get(row.name, "")
        shown = ("true" if value else "false") if isinstance(value, bool) else str(value)
        if posted is not None:
            shown = posted.get(f"value-{row.name}", "")
        fields.append(ValueField(row.name, row.type, shown, errors.get(row.name, "")))
    return fields


def _home_fields(request: HttpRequest, principal: Principal | None) -> list[HomeField]:
    homes = principal.homes.all() if principal else ()
    held = {home.overlay.name: home.agent.name for home in homes}
    chosen = _chosen(request.POST) if request.method == "POST" else held
    agents = [a for a in selectors.agents(request.user) if a.state == Agent.State.ACTIVE]
    return [
        HomeField(
            overlay,
            [agent for agent in agents if agent.overlay_id == overlay.pk],
            chosen.get(overlay.name, ""),
        )
        for overlay in selectors.overlays(request.user)
    ]
