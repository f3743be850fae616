"""Rollouts: how far are changed policies, did an agent refuse them, and in which stages they go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from adminapp.console import access, forms
from adminapp.console.pages import in_domain, managers_only, show
from adminapp.console.rolloutforms import PlanForm
from adminapp.core.errors import Conflict, Invalid, ServiceError
from adminapp.distribution import rolloutplans, services
from adminapp.distribution.models import PolicyRollout, RolloutPlan
from adminapp.distribution.serving import serving_agents
from adminapp.distribution.standings import AgentStanding, standings
from adminapp.identity.models import Domain

SHOWN = 10


@dataclass(frozen=True)
class Stage:
    """A stage as it is drawn.

    Args:
        number: from 1.
        state: `done`, `now` or `later`.
        wait_seconds: how long the next one waits afterwards.
        agents: its agents as they stand.
        ready: from when on the next one may begin; None unless all of this one hold it.
    """

    number: int
    state: str
    wait_seconds: int
    agents: tuple[AgentStanding, ...]
    ready: datetime | None = None

    @property
    def applied(self) -> int:
        """How many of its agents signed that they hold it."""
        return sum(each.state == "applied" for each in self.agents)


@dataclass(frozen=True)
class Drawn:
    """A rollout with its stages."""

    row: PolicyRollout
    stages: tuple[Stage, ...]

    @property
    def applied(self) -> int:
        """How many agents signed that they hold it."""
        return sum(stage.applied for stage in self.stages)

    @property
    def agents(self) -> int:
        """How many there are."""
        return sum(len(stage.agents) for stage in self.stages)


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    return _page(request, domain)


def _page(
    request: HttpRequest, domain: Domain, form: PlanForm | None = None, status: int = 200
) -> HttpResponse:
    plan = _plan(domain)
    if form is None and access.may_change(request.user, domain):
        form = PlanForm(plan=plan, known=_known(domain, plan))
    found = rolloutplans.rollouts(request.user).filter(domain=domain)
    running = found.filter(state__in=PolicyRollout.OPEN).first()
    return show(
        request,
        "console/rollouts/index.html",
        title="Rollouts",
        area="rollouts",
        question="How far are changed policies, and did an agent refuse them?",
        domain=domain,
        live=True,
        status=status,
        parts={
            "state": "console/rollouts/_state.html",
            "decide": "console/rollouts/_decide.html",
        },
        plan=plan if plan is not None and plan.enabled else None,
        form=form,
        drawn=None if running is None else Drawn(running, tuple(_stages(running))),
        ended=found.exclude(state__in=PolicyRollout.OPEN)[:SHOWN],
    )


def _plan(domain: Domain) -> RolloutPlan | None:
    """The domain's plan, also one that is switched off."""
    return RolloutPlan.objects.filter(domain=domain).first()


def _known(domain: Domain, plan: RolloutPlan | None) -> list[str]:
    """Names of agents that a stage may hold: those that serve the domain, or stand there."""
    named = [] if plan is None else [name for each in plan.stages for name in each["agents"]]
    return sorted({*serving_agents(domain).values_list("name", flat=True), *named})


def _stages(row: PolicyRollout) -> Iterator[Stage]:
    found = standings(row)
    for number, stage in enumerate(row.stages):
        mine = tuple(each for each in found if each.stage == number)
        state = "later" if number > row.stage else "now" if number == row.stage else "done"
        wait = stage["wait_seconds"]
        applied = row.stage_applied if state == "now" else None
        ready = applied + timedelta(seconds=wait) if applied and wait else None
        yield Stage(number + 1, state, wait, mine, ready)


@require_POST
@in_domain
@managers_only
def save_plan(request: HttpRequest, domain: Domain) -> HttpResponse:
    """Have changed policies go by these stages; `more` only shows a place for another one."""
    plan = _plan(domain)
    more = "more" in request.POST
    form = PlanForm(request.POST, plan=plan, known=_known(domain, plan), one_more=more)
    if more or not form.is_valid():
        return _page(request, domain, form, status=200 if more else 422)
    try:
        services.set_plan(
            actor=request.user,
            domain=domain,
            stages=form.said(),
            silence_seconds=form.cleaned_data["silence_seconds"],
            # Of a plan that came to be since the page was opened, 0 is no version.
            expected_version=None if plan is None else form.cleaned_data["version"],
        )
    except Invalid as error:
        form.take(error.problems)
        return _page(request, domain, form, status=422)
    except Conflict:
        form.add_error(
            None,
            "Somebody changed the stages after you opened this page. Nothing was saved. Load the "
            "page anew to see theirs.",
        )
        return _page(request, domain, form, status=409)
    messages.success(request, "Saved. The next change that permits more goes by these stages.")
    return HttpResponseRedirect(reverse("console:rollouts", args=[domain.name]))


@require_POST
@in_domain
@managers_only
def end_plan(request: HttpRequest, domain: Domain) -> HttpResponse:
    """Switch the stages off: changed policies go to all agents at once, also those on their way.

    The stages stay written down, to be switched on again.
    """
    plan = get_object_or_404(rolloutplans.plans(request.user), domain=domain, enabled=True)
    form = forms.VersionForm(request.POST)
    back = HttpResponseRedirect(reverse("console:rollouts", args=[domain.name]))
    if not form.is_valid():
        messages.error(request, "The form was incomplete. Nothing was changed.")
        return back
    try:
        services.set_plan(
            actor=request.user,
            domain=domain,
            enabled=False,
            stages=plan.stages,
            silence_seconds=plan.silence_seconds,
            expected_version=form.cleaned_data["version"],
        )
    except ServiceError as error:
        forms.tell(request, error)
    else:
        messages.success(request, "Switched off. Changed policies go to all agents at once.")
    return back


@require_POST
@in_domain
@managers_only
def decide(request: HttpRequest, domain: Domain, pk: int, deed: str) -> HttpResponse:
    """Go on after a stop, or go back; the form says which version was looked at."""
    row = get_object_or_404(rolloutplans.rollouts(request.user), domain=domain, pk=pk)
    form = forms.VersionForm(request.POST)
    back = HttpResponseRedirect(reverse("console:rollouts", args=[domain.name]))
    if not form.is_valid():
        messages.error(request, "The form was incomplete. Nothing was changed.")
        return back
    values: dict[str, Any] = {
        "actor": request.user,
        "rollout": row,
        "expected_version": form.cleaned_data["version"],
    }
    if deed == "abort":
        values["reason"] = request.POST.get("reason", "")
    try:
        _DEEDS[deed](**values)
    except ServiceError as error:
        forms.tell(request, error)
    else:
        messages.success(request, _DONE[deed])
    return back


_DEEDS: dict[str, Callable[..., Any]] = {
    "continue": services.continue_rollout,
    "abort": services.abort_rollout,
}
_DONE = {
    "continue": "It goes on, without the agents that made it stop.",
    "abort": "What was in force before goes to all agents as a new revision.",
}
