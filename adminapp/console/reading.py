"""How a client gets the keys of what it reads: by all policies, or by each filter that it asks."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from adminapp.console.pages import in_domain, managers_only
from adminapp.console.principals import find
from adminapp.distribution import filterkeys
from adminapp.identity.models import Domain


@require_POST
@in_domain
@managers_only
def by_filters(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    """Have the client of a principal ask for the key of each filter; nothing if it does."""
    principal = find(request, domain, name)
    if filterkeys.read_by_filters(actor=request.user, principal=principal, on=True):
        messages.success(
            request, f"{name} has no reading keys from the next epoch on; its client asks for them."
        )
    return HttpResponseRedirect(reverse("console:principal", args=[domain.name, name]))


@require_POST
@in_domain
@managers_only
def by_policies(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    """Give the client of a principal the keys of all that policies let it read again."""
    principal = find(request, domain, name)
    if filterkeys.read_by_filters(actor=request.user, principal=principal, on=False):
        messages.success(
            request, f"{name} gets the keys of all that policies let it read, without asking."
        )
    return HttpResponseRedirect(reverse("console:principal", args=[domain.name, name]))
