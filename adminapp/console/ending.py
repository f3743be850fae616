"""Revoking anything but a principal: first what it would do, then, confirmed, the revocation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from adminapp.agreements import selectors as agreements
from adminapp.console import forms
from adminapp.console.pages import Crumb, in_domain, managers_only, operators_only, show, signed_in
from adminapp.console.stepup import confirmed_lately
from adminapp.core.errors import Conflict, Forbidden, InUse, Invalid, ServiceError
from adminapp.distribution import endings, impact, services
from adminapp.distribution.endings import Target
from adminapp.distribution.models import Revocation
from adminapp.distribution.models.revocations import what
from adminapp.distribution.serving import domains_of_agent
from adminapp.identity import selectors
from adminapp.identity.models import Agent, Domain
from adminapp.roles import selectors as roles
from adminapp.trustgroups import selectors as trustgroups

Kind = Revocation.Kind
Named = Mapping[str, str]


@require_http_methods(["GET", "HEAD", "POST"])
@in_domain
@managers_only
@confirmed_lately
def revoke(request: HttpRequest, domain: Domain) -> HttpResponse:
    """What the address names, tried out; then, with the name typed, the revocation itself."""
    target = _target(request, domain)
    if target.domain.pk != domain.pk:
        raise Http404("that belongs to another domain")
    return _answer(request, domain, target, reverse("console:revoke", args=[domain.name]))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
@operators_only
@confirmed_lately
def revoke_agent(request: HttpRequest, name: str) -> HttpResponse:
    """The same of an agent, in every domain that it serves; for operators."""
    agent = get_object_or_404(selectors.agents(request.user), name=name)
    domains = domains_of_agent(agent)
    if not domains:
        messages.info(request, f"{agent.name} serves no domain; banning it is enough.")
        return HttpResponseRedirect(reverse("console:agent", args=[agent.name]))
    target = endings.agents(agent, domains)[0]
    return _answer(request, domains[0], target, reverse("console:agent-revoke", args=[agent.name]))


def _answer(request: HttpRequest, domain: Domain, target: Target, here: str) -> HttpResponse:
    confirmed = _to_type(target)
    if request.method != "POST":
        form = forms.EndForm(name=confirmed)
        return _page(request, domain, target, form)
    form = forms.EndForm(request.POST, name=confirmed)
    if not form.is_valid():
        return _page(request, domain, target, form, status=422)
    try:
        made = _revoke(request, target, form.cleaned_data["reason"])
    except Invalid as error:
        form.take(error.problems)
        return _page(request, domain, target, form, status=422)
    except (InUse, Conflict) as error:
        form.add_error(None, error.message)
        return _page(request, domain, target, form, status=409)
    return HttpResponseRedirect(reverse("console:revocation", args=[made.domain.name, made.uid]))


def _revoke(request: HttpRequest, target: Target, reason: str) -> Revocation:
    if target.kind == Kind.AGENT:
        return services.revoke_agent(actor=request.user, agent=target.row, reason=reason)[0]
    return services.revoke(actor=request.user, target=target, reason=reason)


def _page(
    request: HttpRequest,
    domain: Domain,
    target: Target,
    form: forms.EndForm,
    *,
    status: int = 200,
) -> HttpResponse:
    found, refused = None, ""
    try:
        found = impact.foresee(actor=request.user, target=target)
    except Forbidden:
        raise
    except ServiceError as error:
        refused = error.message
    named = what(target.kind, target.principal.name if target.principal else "", target.subject)
    return show(
        request,
        "console/revocations/revoke.html",
        title=f"Revoke {named}",
        area="revocations",
        question="What revoking would do. Nothing is changed yet.",
        domain=domain,
        trail=(Crumb("Revocations", reverse("console:revocations", args=[domain.name])),),
        status=status,
        what=named,
        confirm=_to_type(target),
        form=form,
        impact=found,
        refused=refused,
        lease=domain.lease_seconds,
    )


def _to_type(target: Target) -> str:
    """What is typed to confirm: the shortest name that says what it is."""
    if target.principal is not None:
        return str(target.principal.name)
    for part in ("role", "agreement", "agent"):
        if part in target.subject:
            return target.subject[part]
    raise AssertionError("a revocation of something without a name")


# -- what the address names ---------------------------------------------------------------------


def _target(request: HttpRequest, domain: Domain) -> Target:
    make = _TARGETS.get(request.GET.get("kind", ""))
    if make is None:
        raise Http404("no such kind of revocation")
    return make(request, domain)


def _number(request: HttpRequest, name: str) -> int:
    text = request.GET.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise Http404(f"no such {name}")
    return int(text)


def _principal(request: HttpRequest, domain: Domain) -> Any:
    rows = selectors.principals(request.user, domain)
    return get_object_or_404(rows, name=request.GET.get("principal", ""))


def _appointment(request: HttpRequest, domain: Domain) -> Target:
    rows = roles.appointments(request.user, domain)
    return endings.appointment(get_object_or_404(rows, pk=_number(request, "appointment")))


def _holder(request: HttpRequest, domain: Domain) -> Target:
    return endings.holder(_principal(request, domain), request.GET.get("role", ""))


def _role(request: HttpRequest, domain: Domain) -> Target:
    rows = roles.roles(request.user, domain)
    return endings.role(get_object_or_404(rows, name=request.GET.get("role", "")))


def _attribute(request: HttpRequest, domain: Domain) -> Target:
    return endings.attribute(_principal(request, domain), request.GET.get("attribute", ""))


def _agreement(request: HttpRequest, domain: Domain) -> Target:
    rows = agreements.agreements(request.user, domain)
    row = get_object_or_404(rows, pk=_number(request, "agreement"))
    return endings.agreement(row, row.side_of(domain))


def _client_key(request: HttpRequest, domain: Domain) -> Target:
    return endings.client_key(_principal(request, domain))


def _member(request: HttpRequest, domain: Domain) -> Target:
    groups = trustgroups.trust_groups(request.user, domain)
    group = get_object_or_404(groups, name=request.GET.get("trust_group", ""))
    agent: Agent = get_object_or_404(group.members, name=request.GET.get("agent", ""))
    return endings.member(group, agent)


_TARGETS: Mapping[str, Callable[[HttpRequest, Domain], Target]] = {
    Kind.APPOINTMENT: _appointment,
    Kind.HOLDER: _holder,
    Kind.ROLE: _role,
    Kind.ATTRIBUTE: _attribute,
    Kind.AGREEMENT: _agreement,
    Kind.CLIENT_KEY: _client_key,
    Kind.MEMBER: _member,
}
