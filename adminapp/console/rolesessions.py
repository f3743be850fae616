"""Sessions of a principal: which roles are active in them, and ending one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST

from adminapp.console import forms
from adminapp.console.pages import in_domain, managers_only
from adminapp.core.errors import ServiceError
from adminapp.identity import selectors as identity
from adminapp.identity.models import Domain, Principal
from adminapp.roles import selectors, services
from adminapp.roles.models import RoleSession, SessionRole

ENDED_SHOWN = 5


@dataclass(frozen=True)
class Shown:
    """A session with its roles, those that are active and those that ended."""

    row: RoleSession
    active: tuple[SessionRole, ...]
    ended: tuple[SessionRole, ...]


def sessions(user: Any, principal: Principal) -> list[Shown]:
    """The open sessions of a principal and the last that were closed."""
    found = selectors.sessions(user, principal.domain).filter(principal=principal)
    closed = found.filter(closed__isnull=False)[:ENDED_SHOWN]
    return list(_shown([*found.filter(closed__isnull=True), *closed]))


def _shown(rows: list[RoleSession]) -> Iterator[Shown]:
    for row in rows:
        held = tuple(row.roles.all())
        active = tuple(each for each in held if each.ended is None)
        yield Shown(row, active, tuple(each for each in held if each.ended is not None))


@require_POST
@in_domain
@managers_only
def end(request: HttpRequest, domain: Domain, name: str, pk: int) -> HttpResponse:
    """End a session and every role in it."""
    principal = get_object_or_404(identity.principals(request.user, domain), name=name)
    rows = selectors.sessions(request.user, domain).filter(principal=principal)
    row = get_object_or_404(rows, pk=pk)
    form = forms.VersionForm(request.POST)
    back = HttpResponseRedirect(reverse("console:principal", args=[domain.name, name]))
    if not form.is_valid():
        messages.error(request, "The form was incomplete. Nothing was changed.")
        return back
    try:
        services.close_session(
            actor=request.user, session=row, expected_version=form.cleaned_data["version"]
        )
    except ServiceError as error:
        forms.tell(request, error)
    else:
        messages.success(request, "The session has ended, and every role in it.")
    return back
