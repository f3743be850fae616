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
def change(request: HttpRequest, domain: Domain, name: str, *, by_filters: bool) -> HttpResponse:
    """Have the client of a principal ask for the key of each filter, or need not ask any more."""
    principal = find(request, domain, name)
    if filterkeys.read_by_filters(actor=request.user, principal=principal, on=by_filters):
        messages.success(request, _SAID[by_filters].format(name=name))
    return HttpResponseRedirect(reverse("console:principal", args=[domain.name, name]))


_SAID = {
    True: "{name} has no reading keys from the next epoch on; its client asks for them.",
    False: "{name} gets the keys of all that policies let it read, without asking.",
}
