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
from adminapp.console import access, agents, enrolments, words
from adminapp.console.agents import Holding
from adminapp.console.pages import show, signed_in
from adminapp.distribution import rolloutplans, roots, selectors
from adminapp.distribution.models import Bundle, PolicyRollout, RecomputeJob, Revocation
from adminapp.enrolment import selectors as enrolment
from adminapp.identity import permissions
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
    yield from _root(user)
    yield from _waiting(user)
    yield from _asking(user)
    yield from _contradicted(user)
    yield from _stopped(user)
    yield from _rejected(held)
    yield from _rejected_by_clients(user)
    yield from _trouble_with_jobs(user)
    yield from _lagging(held)
    for revocation in running:
        yield Need(
            "info",
            "user-off",
            f"{revocation.what} is being revoked",
            words.term("revocation", revocation.state).label.capitalize(),
            reverse("console:revocation", args=[revocation.domain.name, revocation.uid]),
            "Watch",
        )
    yield from _unclassified(user)


def _root(user: Any) -> Iterator[Need]:
    """What operators must know of the root of trust."""
    found = roots.standing() if permissions.is_operator(user) else None
    if found is None:
        return
    url, action = reverse("console:root"), "Look"
    if found.days < roots.WARN_DAYS:
        left = max(0, int(found.days))
        ended = found.days <= 0
        yield Need(
            "bad" if found.days < roots.URGENT_DAYS else "warn",
            "alert-circle",
            "The root of trust has ended"
            if ended
            else f"The root of trust ends in {words.count(left, 'day')}",
            "Agents accept no lease any more and deliver nothing: hold the next root ceremony"
            if ended
            else "From then on nothing is delivered: bring its holders together before",
            url,
            action,
        )
    if found.self_made:
        yield Need(
            "warn",
            "key",
            "The root of trust is self-made: for development only",
            "Whoever takes the authority's machine can replace every key unseen. Hold a root "
            "ceremony (policyctl root init) before anything depends on this",
            url,
            action,
        )


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


def _asking(user: Any) -> Iterator[Need]:
    """Machines and clients that ask to take part, for those who may let them in."""
    rows = enrolment.waiting(enrolment.enrolments(user))
    mine = [row for row in rows if enrolments.may_decide(user, row)]
    if mine:
        yield Need(
            "warn",
            "fingerprint",
            f"{words.count(len(mine), 'request')} to take part",
            words.listing([row.whom for row in mine]),
            reverse("console:enrolments"),
            "Compare",
        )


def _contradicted(user: Any) -> Iterator[Need]:
    """Receipts that agents' own decision logs speak against."""
    rows = selectors.revocations(user).filter(checks__after__gt=0).distinct()
    for row in rows[:RECENT]:
        yield Need(
            "bad",
            "alert-circle",
            f"Events passed after {row.what} was revoked",
            "Agents' decision logs show deliveries that were not to be",
            reverse("console:revocation", args=[row.domain.name, row.uid]),
            "Look",
        )


def _stopped(user: Any) -> Iterator[Need]:
    """Rollouts that go on only when somebody says so."""
    for row in rolloutplans.rollouts(user).filter(state=PolicyRollout.State.STOPPED):
        yield Need(
            "bad",
            "alert-circle",
            f"The rollout of revision {row.revision} of {row.domain.title or row.domain.name} "
            "has stopped",
            row.reason,
            reverse("console:rollouts", args=[row.domain.name]),
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
        if holding.state not in {"behind", "silent", "waiting", "contradicts"}:
            continue
        text = {
            "contradicts": f"It says that it holds revision {holding.entry.revision} of "
            f"{holding.entry.domain} in a form that was never built for it",
            "behind": f"{holding.lag} behind in {holding.entry.domain}",
            "silent": f"Its lease for {holding.entry.domain} has ended, so it delivers nothing",
            "waiting": f"Has never asked for {holding.entry.domain}",
        }[holding.state]
        said = words.term("agent", holding.state).label
        yield Need(
            "bad" if holding.state in {"silent", "contradicts"} else "warn",
            words.term("agent", holding.state).icon,
            f"{holding.agent.name} {said if holding.state == 'contradicts' else f'is {said}'}",
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
