"""Overview: what needs me?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from adminapp.audit import selectors as audit
from adminapp.catalog import selectors as catalog
from adminapp.changes import selectors as changes
from adminapp.console import access, agents, words
from adminapp.console.agents import Holding
from adminapp.console.pages import show, signed_in
from adminapp.distribution import selectors
from adminapp.distribution.models import Bundle, RecomputeJob, Revocation
from adminapp.identity import selectors as identity

RECENT = 10


@dataclass(frozen=True)
class Need:
    """One thing that waits for a person."""

    tone: str
    icon: str
    title: str
    text: str
    url: str
    action: str


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    user = request.user
    held = agents.holdings(user)
    running = _running(user)
    needs = list(_needs(user, held, running))
    return show(
        request,
        "console/overview/index.html",
        title="Overview",
        area="overview",
        question="What needs me?",
        live=True,
        parts={"state": "console/overview/_state.html"},
        needs=needs,
        progress=agents.progress(user),
        running=running,
        recent=audit.visible_to(user)[:RECENT],
        held=held,
    )


def _running(user: Any) -> list[Revocation]:
    ended = (Revocation.State.COMPLETE, Revocation.State.FAILED)
    return list(selectors.revocations(user).exclude(state__in=ended))


def _needs(user: Any, held: list[Holding], running: list[Revocation]) -> Iterator[Need]:
    yield from _waiting(user)
    yield from _rejected(held)
    yield from _rejected_by_clients(user)
    yield from _trouble_with_jobs(user)
    yield from _lagging(held)
    for revocation in running:
        yield Need(
            "info",
            "user-off",
            f"{revocation.principal.name} is being revoked",
            words.term("revocation", revocation.state).label.capitalize(),
            reverse("console:revocation", args=[revocation.domain.name, revocation.uid]),
            "Watch",
        )
    yield from _unclassified(user)


def _waiting(user: Any) -> Iterator[Need]:
    """Changes that a second person has to decide about."""
    for row in changes.waiting_for(user).filter(domain__isnull=False)[:RECENT]:
        if access.may_change(user, row.domain):
            urgent = row.review == "due"
            yield Need(
                "bad" if urgent else "warn",
                "list-check",
                f"{'An urgent grant' if urgent else 'A change'} of "
                f"{row.domain.title or row.domain_name} waits for a decision",
                row.message or f"Asked for by {row.author or 'the system'}",
                reverse("console:change-set", args=[row.domain_name, row.pk]),
                "Decide",
            )


def _rejected(held: list[Holding]) -> Iterator[Need]:
    for holding in held:
        if holding.entry.state == "rejected":
            yield Need(
                "bad",
                "alert-circle",
                f"{holding.agent.name} refused a bundle of {holding.entry.domain}",
                f"Reason: {words.reason(holding.entry.reason)}",
                reverse("console:agent", args=[holding.agent.name]),
                "Look",
            )


def _rejected_by_clients(user: Any) -> Iterator[Need]:
    """Publishers and subscribers whose newest bundle was refused."""
    for domain in identity.domains(user):
        refused = selectors.bundles(domain).filter(
            state=Bundle.State.REJECTED,
            revision=domain.revision,
            audience__startswith="client:",
        )
        reasons = {bundle.audience.partition(":")[2]: bundle.reason for bundle in refused[:RECENT]}
        for principal in identity.principals(user, domain).filter(handle__in=reasons):
            yield Need(
                "bad",
                "alert-circle",
                f"The client of {principal.name} refused a bundle of {domain.name}",
                f"Reason: {words.reason(reasons[principal.handle])}",
                reverse("console:principal", args=[domain.name, principal.name]),
                "Look",
            )


def _lagging(held: list[Holding]) -> Iterator[Need]:
    for holding in held:
        if holding.state not in {"behind", "silent", "waiting"}:
            continue
        text = {
            "behind": f"{holding.lag} behind in {holding.entry.domain}",
            "silent": f"Its lease for {holding.entry.domain} has ended, so it delivers nothing",
            "waiting": f"Has never asked for {holding.entry.domain}",
        }[holding.state]
        yield Need(
            "bad" if holding.state == "silent" else "warn",
            words.term("agent", holding.state).icon,
            f"{holding.agent.name} is {words.term('agent', holding.state).label}",
            text,
            reverse("console:agent", args=[holding.agent.name]),
            "Look",
        )


def _trouble_with_jobs(user: Any) -> Iterator[Need]:
    for domain in identity.domains(user):
        for job in selectors.recompute_jobs(domain).filter(state=RecomputeJob.State.FAILED)[:3]:
            yield Need(
                "bad",
                "activity",
                f"A job of {domain.title or domain.name} failed",
                job.error[:200] or "No reason was given",
                reverse("console:job", args=[domain.name, job.uid]),
                "Look",
            )


def _unclassified(user: Any) -> Iterator[Need]:
    for domain in identity.domains(user):
        names = list(
            catalog.attributes(user)
            .filter(event_type__domain=domain, pia_reason="")
            .values_list("name", flat=True)
            .distinct()
        )
        if names:
            yield Need(
                "warn",
                "tags",
                f"{words.count(len(names), 'attribute')} of {domain.title or domain.name} "
                "without a reasoned privacy class",
                words.listing(sorted(set(names))),
                reverse("console:classification", args=[domain.name]),
                "Classify",
            )
