"""Settings: tokens for programs, the look of the pages, where the API is described."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from adminapp.console import forms
from adminapp.console.pages import show, signed_in
from adminapp.console.stepup import confirmed_lately
from adminapp.core.errors import Invalid, ServiceError
from adminapp.identity import selectors, services

THEMES = ("auto", "light", "dark")
YEAR = 365 * 24 * 3600


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    return _page(request, forms.TokenForm())


@require_POST
@signed_in
@confirmed_lately
def create_token(request: HttpRequest) -> HttpResponse:
    """The answer shows the secret; no address, message or session has it: a reload loses it."""
    form = forms.TokenForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    try:
        token, secret = services.issue_token(
            actor=request.user,
            user=request.user,
            name=form.cleaned_data["name"],
            scopes=form.cleaned_data["scopes"],
            days=form.cleaned_data["days"],
        )
    except Invalid as error:
        form.take(error.problems)
        return _page(request, form, status=422)
    return _page(request, forms.TokenForm(), secret=secret, fresh=token)


@require_POST
@signed_in
def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    token = get_object_or_404(selectors.tokens(request.user), pk=pk)
    form = forms.VersionForm(request.POST)
    if form.is_valid():
        try:
            services.revoke_token(
                actor=request.user, token=token, expected_version=form.cleaned_data["version"]
            )
        except ServiceError as error:
            messages.error(request, f"Nothing was changed: {error.message}.")
        else:
            messages.success(request, f"Token {token.name} no longer works.")
    else:
        messages.error(request, "The form was incomplete. Nothing was changed.")
    return HttpResponseRedirect(reverse("console:settings"))


@require_POST
def display(request: HttpRequest) -> HttpResponse:
    """Remember light, dark or what the device says; a cookie, because it is the browser's."""
    theme = request.POST.get("theme", "auto")
    response = HttpResponseRedirect(reverse("console:settings"))
    if theme in THEMES:
        # Not HttpOnly: the script that draws the page reads it.
        response.set_cookie(
            "theme", theme, max_age=YEAR, samesite="Lax", secure=request.is_secure()
        )
    return response


def _page(
    request: HttpRequest,
    form: forms.TokenForm,
    *,
    secret: str = "",
    fresh: object = None,
    status: int = 200,
) -> HttpResponse:
    return show(
        request,
        "console/settings/index.html",
        title="Settings",
        area="settings",
        question="Your own tokens, the look of these pages, and the API.",
        status=status,
        form=form,
        tokens=selectors.tokens(request.user),
        secret=secret,
        fresh=fresh,
        theme=request.COOKIES.get("theme", "auto"),
        api_documents=reverse("api:docs"),
        api_schema=reverse("api:schema"),
    )
