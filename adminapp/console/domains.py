"""Domains: who runs what?"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from adminapp.catalog import selectors as catalog
from adminapp.console import agents
from adminapp.console.pages import in_domain, show, signed_in
from adminapp.distribution import history, selectors
from adminapp.distribution.selectors import DomainProgress
from adminapp.identity import selectors as identity
from adminapp.identity.models import Domain


@dataclass(frozen=True)
class Summary:
    """A domain with its figures."""

    domain: Domain
    progress: DomainProgress
    principals: int
    policies: int
    managers: list[str]


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    found = identity.domains(request.user).annotate(
        principals_held=Count("principals", distinct=True),
        policies_held=Count("policies", distinct=True),
    )
    managers: dict[int, list[str]] = {}
    for membership in identity.memberships(request.user).filter(role="manager"):
        managers.setdefault(membership.domain_id, []).append(membership.user.get_username())
    rows = [
        Summary(
            domain,
            selectors.domain_progress(domain),
            domain.principals_held,
            domain.policies_held,
            managers.get(domain.pk, []),
        )
        for domain in found
    ]
    return show(
        request,
        "console/domains/index.html",
        title="Domains",
        area="domains",
        question="Which organisations are there, and who runs what?",
        live=True,
        parts={"rows": "console/domains/_rows.html"},
        rows=rows,
    )


@require_safe
@in_domain
def detail(request: HttpRequest, domain: Domain) -> HttpResponse:
    user = request.user
    holdings = [h for h in agents.holdings(user) if h.entry.domain == domain.name]
    return show(
        request,
        "console/domains/detail.html",
        title=domain.title or domain.name,
        area="domains",
        question=domain.description,
        domain=domain,
        live=True,
        parts={"state": "console/domains/_state.html"},
        memberships=identity.memberships(user, domain),
        subject_attributes=catalog.subject_attributes(user, domain),
        progress=selectors.domain_progress(domain),
        holdings=holdings,
        lanes=history.lanes(domain, [h.agent.name for h in holdings]),
        lane_hours=history.HOURS_SHOWN,
        counts={
            "principals": identity.principals(user, domain).count(),
            "policies": domain.policies.count(),
            "event_types": domain.event_types.count(),
            "roles": domain.roles.count(),
        },
        epochs=selectors.encoding_epochs(domain)[:5],
    )
