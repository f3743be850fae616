"""Accepted risks: which attribute is protected less than its class asks for, and until when?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from adminapp.catalog import selectors, services
from adminapp.catalog.models import EventType, RiskAcceptance
from adminapp.console import forms
from adminapp.console.pages import in_domain, managers_only, show
from adminapp.core.errors import ServiceError
from adminapp.identity.models import Domain

SOON = timedelta(days=30)


@dataclass(frozen=True)
class Risk:
    """An accepted risk with a word of the vocabulary `risk`."""

    row: RiskAcceptance
    state: str


def risks(user: Any, domain: Domain, event_type: EventType | None = None) -> list[Risk]:
    """Accepted risks of a domain, or of one of its types; the one that ends first comes first."""
    found = selectors.risk_acceptances(user, domain).order_by("until", "pk")
    return list(_shown(found if event_type is None else found.filter(event_type=event_type)))


def _shown(rows: Iterable[RiskAcceptance]) -> Iterable[Risk]:
    now = timezone.now()
    for row in rows:
        over, soon = row.until <= now, row.until <= now + SOON
        yield Risk(row, "over" if over else "soon" if soon else "holds")


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    return show(
        request,
        "console/risks/index.html",
        title="Accepted risks",
        area="risks",
        question="Which attribute is protected less than its class asks for, who took that on, and "
        "until when?",
        domain=domain,
        risks=risks(request.user, domain),
        show_type=True,
    )


@require_POST
@in_domain
@managers_only
def withdraw(request: HttpRequest, domain: Domain, pk: int) -> HttpResponse:
    """Take an acceptance back; the attribute has to be protected otherwise by then."""
    row = get_object_or_404(selectors.risk_acceptances(request.user, domain), pk=pk)
    form = forms.VersionForm(request.POST)
    back = HttpResponseRedirect(reverse("console:risks", args=[domain.name]))
    if not form.is_valid():
        messages.error(request, "The form was incomplete. Nothing was changed.")
        return back
    try:
        services.withdraw_acceptance(
            actor=request.user,
            risk_acceptance=row,
            expected_version=form.cleaned_data["version"],
        )
    except ServiceError as error:
        forms.tell(request, error)
    else:
        messages.success(request, f"The risk of {row.event_type.name}.{row.attribute} is no more.")
    return back
