"""Policies: what is allowed, what changed, and what a change would do."""

from __future__ import annotations

from itertools import islice
from typing import Any

import django_filters
from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from adminapp.catalog import selectors as catalog
from adminapp.console import brokerview, diffs, forms, words
from adminapp.console.pages import Crumb, in_domain, managers_only, show
from adminapp.console.tables import PolicyTable, configured
from adminapp.core.errors import Conflict, ServiceError
from adminapp.distribution import usage
from adminapp.identity.models import Domain
from adminapp.policies import reach, selectors, services
from adminapp.policies.language import Language
from adminapp.policies.models import Policy
from policyengine.errors import InputError

SHOWN = 200  # lines of access on a page


class PolicyFilter(django_filters.FilterSet):
    """What the list may be narrowed to."""

    text = django_filters.CharFilter(label="Words", method="by_text")
    action = django_filters.ChoiceFilter(
        label="Permits to",
        empty_label="Anything",
        choices=[
            ("subscribe", "receive"),
            ("publish", "publish"),
            ("advertise", "advertise"),
            ("define", "define types"),
        ],
    )
    type = django_filters.ModelChoiceFilter(
        field_name="event_type", label="Event type", empty_label="Any", queryset=None
    )
    enabled = django_filters.ChoiceFilter(
        label="State",
        empty_label="Any",
        choices=[("True", "in force"), ("False", "switched off")],
    )

    class Meta:
        model = Policy
        fields: list[str] = []

    def __init__(self, *args: Any, types: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.filters["type"].queryset = types
        for field in self.form.fields.values():
            forms.style(field.widget)

    def by_text(self, queryset: Any, _name: str, value: str) -> Any:
        return queryset.filter(
            Q(name__icontains=value) | Q(title__icontains=value) | Q(expression__icontains=value)
        )


# -- reading ---------------------------------------------------------------------------------


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    found = selectors.policies(request.user, domain)
    narrowed = PolicyFilter(
        request.GET, queryset=found, types=catalog.event_types(request.user, domain)
    )
    return show(
        request,
        "console/policies/index.html",
        title="Policies",
        area="policies",
        question="What is allowed? What no policy permits is denied.",
        domain=domain,
        parts={"rows": "console/policies/_rows.html"},
        filter=narrowed,
        table=configured(request, PolicyTable(narrowed.qs)),
        any=found.exists(),
    )


@require_safe
@in_domain
def detail(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    policy = find(request, domain, name)
    found = reach.take(domain)
    return _show(
        request,
        policy,
        "console/policies/detail.html",
        tab="policy",
        access=list(islice(found.effective(policy=policy.name), SHOWN)),
        holders=found.size(policy=policy.name),
        shown=SHOWN,
        reading=_in_words(policy, selectors.language(domain)),
        use=usage.of_policy(policy),
    )


@require_safe
@in_domain
def history(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    """Every state that the policy was in, the newest first, each compared with the one before."""
    policy = find(request, domain, name)
    versions = list(selectors.versions(request.user, policy))
    earlier = [*versions[1:], None]
    entries = [
        {
            "version": version,
            "changes": diffs.between(before.snapshot if before else None, version.snapshot),
            "current": version.number == policy.version,
        }
        for version, before in zip(versions, earlier, strict=True)
    ]
    return _show(request, policy, "console/policies/history.html", tab="history", entries=entries)


@require_safe
@in_domain
def broker_view(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    """What a broker holds of the policy, beside what a person wrote."""
    policy = find(request, domain, name)
    return _show(
        request,
        policy,
        "console/policies/broker_view.html",
        tab="broker",
        view=brokerview.view(policy),
    )


def _show(
    request: HttpRequest, policy: Policy, template: str, *, tab: str, **context: Any
) -> HttpResponse:
    return show(
        request,
        template,
        title=policy.name,
        area="policies",
        question=policy.title,
        domain=policy.domain,
        policy=policy,
        tab=tab,
        **context,
    )


def find(request: HttpRequest, domain: Domain, name: str) -> Policy:
    """The policy of an address, if the user may see it."""
    return get_object_or_404(selectors.policies(request.user, domain), name=name)


def _in_words(policy: Policy, spoken: Language) -> list[dict[str, Any]]:
    """The ways to satisfy a policy, each as its conditions on who and on what."""
    try:
        found = spoken.ways(policy.expression, policy.event_type.name)
    except InputError:  # a policy that no longer fits its model is shown as it was written
        return []
    return [words.conjunction(each) for each in found]


def trail(policy: Policy | None) -> tuple[Crumb, ...]:
    """Breadcrumbs from the list to a policy's own page."""
    if policy is None:
        return ()
    return (Crumb(policy.name, reverse("console:policy", args=[policy.domain.name, policy.name])),)


# -- restoring, deleting ---------------------------------------------------------------------


@require_POST
@in_domain
@managers_only
def restore(request: HttpRequest, domain: Domain, name: str, number: int) -> HttpResponse:
    """Make an old state the newest one."""
    policy = find(request, domain, name)
    form = forms.VersionForm(request.POST)
    if not form.is_valid():
        messages.error(request, "The form was incomplete. Nothing was changed.")
        return HttpResponseRedirect(reverse("console:policy-history", args=[domain.name, name]))
    try:
        saved = services.restore_policy_version(
            actor=request.user,
            policy=policy,
            number=number,
            expected_version=form.cleaned_data["version"],
        )
    except Conflict:
        messages.warning(
            request,
            "Somebody changed the policy after you opened this page. Nothing was restored; below "
            "is the history as it is now.",
        )
        return HttpResponseRedirect(reverse("console:policy-history", args=[domain.name, name]))
    except ServiceError as error:
        messages.error(request, f"Nothing was restored: {error.message}.")
        return HttpResponseRedirect(reverse("console:policy-history", args=[domain.name, name]))
    messages.success(request, f"Version {number} is in force again, as version {saved.version}.")
    return HttpResponseRedirect(reverse("console:policy", args=[domain.name, saved.name]))


@require_safe
@in_domain
@managers_only
def confirm_delete(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    policy = find(request, domain, name)
    found = services.plan_policy_change(actor=request.user, domain=domain, policy=policy)
    return show(
        request,
        "console/policies/delete.html",
        title="Delete",
        area="policies",
        question="What deleting the policy would do. Nothing is changed yet.",
        domain=domain,
        trail=trail(policy),
        policy=policy,
        plan=found,
    )


@require_POST
@in_domain
@managers_only
def delete(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    policy = find(request, domain, name)
    form = forms.VersionForm(request.POST)
    if not form.is_valid():
        messages.error(request, "The form was incomplete. Nothing was changed.")
        return HttpResponseRedirect(reverse("console:policy", args=[domain.name, name]))
    try:
        services.delete_policy(
            actor=request.user, policy=policy, expected_version=form.cleaned_data["version"]
        )
    except Conflict:
        messages.warning(
            request, "Somebody changed the policy after you opened it. Nothing was deleted."
        )
        return HttpResponseRedirect(reverse("console:policy", args=[domain.name, name]))
    except ServiceError as error:
        messages.error(request, f"Nothing was deleted: {error.message}.")
        return HttpResponseRedirect(reverse("console:policy", args=[domain.name, name]))
    messages.success(request, f"Policy {policy.name} is gone; the audit keeps what it was.")
    return HttpResponseRedirect(reverse("console:policies", args=[domain.name]))
