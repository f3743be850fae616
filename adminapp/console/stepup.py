"""Asking for the password again before what is hard to take back."""

from __future__ import annotations

from functools import wraps
from typing import Any
from urllib.parse import urlencode, urlsplit

from django import forms as fields
from django.contrib import messages
from django.contrib.auth import authenticate
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import Resolver404, resolve, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from adminapp.console import forms
from adminapp.console.pages import View, show, signed_in
from adminapp.identity import stepup, throttling


def confirmed_lately(view: View) -> View:
    """For views that revoke, ban, let in or end keys: the password was given a while ago at most.

    Stands below what decides whether the person may do it at all.
    """

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if stepup.is_fresh(request):
            return view(request, *args, **kwargs)
        back = request.get_full_path()
        if request.method == "POST":
            messages.warning(
                request, "Nothing was changed. Confirm first that it is you, then do it again."
            )
            back = _came_from(request)
        return HttpResponseRedirect(f"{reverse('console:confirm')}?{urlencode({'next': back})}")

    return checked


_FORMS = {"enrolment-token": "enrolments", "fleet-new": "enrolments", "token-create": "settings"}
_FORMS_OF_DOMAINS = {"rotation": "keys"}
"""Addresses that answer a form with a page and cannot be opened, and where that page else is."""


def _came_from(request: HttpRequest) -> str:
    parts = urlsplit(request.headers.get("Referer", ""))
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    if not _is_ours(request, path):
        return reverse("console:overview")
    try:
        found = resolve(parts.path)
    except Resolver404:
        return reverse("console:overview")
    if found.url_name in _FORMS:
        return reverse(f"console:{_FORMS[found.url_name]}")
    if found.url_name in _FORMS_OF_DOMAINS:
        page = _FORMS_OF_DOMAINS[found.url_name]
        return reverse(f"console:{page}", args=[found.kwargs["domain"]])
    return path


def _is_ours(request: HttpRequest, address: str) -> bool:
    """An address of this console, not of somebody else's site."""
    local = address.startswith("/") and not address.startswith("//")
    return local and url_has_allowed_host_and_scheme(address, allowed_hosts={request.get_host()})


class ConfirmForm(forms.StyledForm):
    """The password of whoever is signed in."""

    password = fields.CharField(
        label="Your password",
        strip=False,
        widget=fields.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def confirm(request: HttpRequest) -> HttpResponse:
    """Ask for the password, and go on to where it was asked for."""
    wanted = request.POST.get("next") or request.GET.get("next", "")
    after = wanted if _is_ours(request, wanted) else reverse("console:overview")
    if request.method != "POST":
        return _page(request, ConfirmForm(), after)
    form = ConfirmForm(request.POST)
    if not form.is_valid():
        return _page(request, form, after, status=422)
    name = request.user.get_username()
    if authenticate(request, username=name, password=form.cleaned_data["password"]) != request.user:
        wait = throttling.seconds_to_wait(request, name)
        form.add_error(
            "password",
            f"Too many failed attempts. Wait {-(-wait // 60)} min and try again."
            if wait
            else "This is not your password.",
        )
        return _page(request, form, after, status=422)
    request.session.cycle_key()
    stepup.note(request)
    return HttpResponseRedirect(after)


def _page(
    request: HttpRequest, form: ConfirmForm, after: str, *, status: int = 200
) -> HttpResponse:
    return show(
        request,
        "console/confirm.html",
        title="Confirm that it is you",
        area="settings",
        question="What comes next is hard to take back, so your password is asked for again.",
        status=status,
        form=form,
        after=after,
    )
