"""Revoking a principal: first what it would do, then, with the name typed, the revocation."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from adminapp.console import forms, impact, principals
from adminapp.console.pages import in_domain, managers_only, show
from adminapp.console.stepup import confirmed_lately
from adminapp.core.errors import Conflict, Invalid
from adminapp.distribution import services
from adminapp.identity.models import Domain, Principal


@require_http_methods(["GET", "HEAD", "POST"])
@in_domain
@managers_only
@confirmed_lately
def revoke(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    """First what it would do; then, with the name typed, the revocation itself."""
    principal = principals.find(request, domain, name)
    if principal.state == Principal.State.REVOKED:
        messages.info(request, f"{principal.name} is revoked already.")
        return HttpResponseRedirect(reverse("console:principal", args=[domain.name, name]))
    if request.method != "POST":
        form = forms.RevokeForm(name=principal.name, initial={"version": principal.version})
        return _revoke_page(request, domain, principal, form)
    form = forms.RevokeForm(request.POST, name=principal.name)
    if not form.is_valid():
        return _revoke_page(request, domain, principal, form, status=422)
    try:
        made = services.revoke_principal(
            actor=request.user,
            principal=principal,
            reason=form.cleaned_data["reason"],
            expected_version=form.cleaned_data["version"],
        )
    except Conflict:
        return _changed_meanwhile(request, domain, name)
    except Invalid as error:
        form.take(error.problems)
        return _revoke_page(request, domain, principal, form, status=422)
    return HttpResponseRedirect(reverse("console:revocation", args=[domain.name, made.uid]))


def _changed_meanwhile(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    fresh = principals.find(request, domain, name)
    data = request.POST.copy()
    data["version"], data["confirm"] = str(fresh.version), ""
    form = forms.RevokeForm(data, name=fresh.name)
    form.is_valid()
    form.add_error(
        None,
        "Somebody changed this principal after you opened the page. Nothing was revoked. Look at "
        "what it would do now, and confirm again if it is still wanted.",
    )
    return _revoke_page(request, domain, fresh, form, status=409)


def _revoke_page(
    request: HttpRequest,
    domain: Domain,
    principal: Principal,
    form: forms.RevokeForm,
    *,
    status: int = 200,
) -> HttpResponse:
    return show(
        request,
        "console/principals/revoke.html",
        title=f"Revoke {principal.name}",
        area="principals",
        question="What revoking would do. Nothing is changed yet.",
        domain=domain,
        trail=principals.trail(principal),
        status=status,
        principal=principal,
        form=form,
        impact=impact.of(principal, request.user),
    )
