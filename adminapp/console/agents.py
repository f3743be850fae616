"""Agents: who runs which revision, told from what they acknowledged and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from adminapp.audit import selectors as audit
from adminapp.console import forms, words
from adminapp.console.pages import operators_only, show, signed_in
from adminapp.console.stepup import confirmed_lately
from adminapp.core.errors import ServiceError
from adminapp.distribution import history, roots, selectors
from adminapp.distribution.models import Bundle
from adminapp.distribution.reports import STRAY
from adminapp.distribution.selectors import AgentDomain, AgentRow, DomainProgress
from adminapp.enrolment import selectors as enrolment
from adminapp.identity import permissions, services
from adminapp.identity import selectors as identity
from adminapp.identity.models import Agent
from policyengine.bundles.addresses import audience

BUNDLES_SHOWN = 25


@dataclass(frozen=True)
class Holding:
    """One agent's hold on one domain, as a row of the table."""

    agent: AgentRow
    entry: AgentDomain
    bundle: Bundle | None

    @property
    def state(self) -> str:
        return state_of(self.entry)

    @property
    def lag(self) -> str:
        behind = self.entry.target - self.entry.revision
        return words.count(behind, "revision") if behind > 0 else "none"


def state_of(entry: AgentDomain) -> str:
    """A word of the vocabulary `agent`."""
    if entry.last_seen is None:
        return "waiting"
    return entry.state


def holdings(user: Any) -> list[Holding]:
    """Every agent with every domain that the user may see; agents without one stand alone."""
    newest = {domain.name: _newest_bundles(domain) for domain in identity.domains(user)}
    return [
        Holding(row, entry, newest.get(entry.domain, {}).get(audience("agent", row.name)))
        for row in selectors.agent_rows(user)
        for entry in row.domains
    ]


def _newest_bundles(domain: Any) -> dict[str, Bundle]:
    """Audience -> the bundle of the highest revision that it acknowledged applying."""
    applied = selectors.bundles(domain).filter(state=Bundle.State.APPLIED).order_by("revision")
    return {bundle.audience: bundle for bundle in applied}


def progress(user: Any) -> list[DomainProgress]:
    """How far each visible domain's agents are."""
    return [selectors.domain_progress(domain) for domain in identity.domains(user)]


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    rows = selectors.agent_rows(request.user)
    return show(
        request,
        "console/agents/index.html",
        title="Agents",
        area="agents",
        question="Which broker agent runs which revision? Told from signed acknowledgements only.",
        live=True,
        parts={"rows": "console/agents/_rows.html"},
        holdings=holdings(request.user),
        idle=[row for row in rows if not row.domains],
        progress=progress(request.user),
        root=roots.standing(),
    )


@require_safe
@signed_in
def detail(request: HttpRequest, name: str) -> HttpResponse:
    agent = get_object_or_404(identity.agents(request.user), name=name)
    to = audience("agent", agent.name)
    domains = list(identity.domains(request.user))
    bundles = [
        bundle
        for domain in domains
        for bundle in selectors.bundles(domain, to).select_related("domain")[:BUNDLES_SHOWN]
    ]
    shown = sorted(bundles, key=lambda bundle: bundle.built_at, reverse=True)[:BUNDLES_SHOWN]
    pieces = selectors.pieces(shown)
    return show(
        request,
        "console/agents/detail.html",
        title=agent.name,
        area="agents",
        question=f"A broker agent on overlay {agent.overlay.name}"
        + (f", run by {agent.overlay.operator}." if agent.overlay.operator else "."),
        live=True,
        parts={"state": "console/agents/_detail.html"},
        agent=agent,
        holdings=[h for h in holdings(request.user) if h.agent.id == agent.pk],
        bundles=[(bundle, pieces.get(bundle.pk, 0)) for bundle in shown],
        lanes=[lane for domain in domains for lane in history.lanes(domain, [agent.name])],
        lane_hours=history.HOURS_SHOWN,
        refused=audit.visible_to(request.user, action=STRAY, object_id=to)[:BUNDLES_SHOWN],
        root=roots.standing(),
        certificate=enrolment.certificates(request.user)
        .filter(enrolment__agent=agent)
        .order_by("-pk")
        .first(),
        may_operate=permissions.is_operator(request.user),
    )


@require_POST
@signed_in
@operators_only
@confirmed_lately
def set_state(request: HttpRequest, name: str) -> HttpResponse:
    """Ban an agent or let it back; operators alone."""
    agent = get_object_or_404(identity.agents(request.user), name=name)
    back = HttpResponseRedirect(reverse("console:agent", args=[agent.name]))
    form = forms.StateForm(request.POST, states=Agent.State.values)
    if not form.is_valid():
        messages.error(request, "The form was incomplete. Nothing was changed.")
        return back
    try:
        services.set_agent_state(
            actor=request.user,
            agent=agent,
            state=form.cleaned_data["state"],
            expected_version=form.cleaned_data["version"],
        )
    except ServiceError as error:
        forms.tell(request, error)
    else:
        done = "banned" if form.cleaned_data["state"] == Agent.State.BANNED else "readmitted"
        messages.success(request, f"Agent {agent.name} is {done}; every domain is compiled anew.")
    return back
