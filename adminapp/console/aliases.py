"""Another alias for an attribute: first what it would touch; confirmed, the run that does it."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from adminapp.console import forms
from adminapp.console.pages import Crumb, in_domain, managers_only, show
from adminapp.console.stepup import confirmed_lately
from adminapp.core.errors import Invalid
from adminapp.distribution import aliases, services
from adminapp.distribution.aliases import Foreseen
from adminapp.identity.models import Domain


@require_http_methods(["GET", "HEAD", "POST"])
@in_domain
@managers_only
@confirmed_lately
def burn(request: HttpRequest, domain: Domain) -> HttpResponse:
    """What the address names, looked at; then, with its name typed, encoded anew."""
    name = aliases.plain_name(request.GET.get("attribute", ""))
    if not name:
        raise Http404("no attribute is named")
    try:
        found = aliases.foresee(actor=request.user, domain=domain, attribute=name)
    except Invalid as error:
        messages.info(request, "Nothing to do: " + " ".join(forms.said_by(error)))
        return HttpResponseRedirect(reverse("console:keys", args=[domain.name]))
    if request.method != "POST":
        return _page(request, domain, found, forms.BurnForm(name=name))
    form = forms.BurnForm(request.POST, name=name)
    if not form.is_valid():
        return _page(request, domain, found, form, status=422)
    job = services.burn_alias(
        actor=request.user, domain=domain, attribute=name, reason=form.cleaned_data["reason"]
    )
    messages.success(
        request, f"{name} gets another alias; agents get it with the next revision. Watch it here."
    )
    return HttpResponseRedirect(reverse("console:job", args=[domain.name, job.uid]))


def _page(
    request: HttpRequest,
    domain: Domain,
    found: Foreseen,
    form: forms.BurnForm,
    *,
    status: int = 200,
) -> HttpResponse:
    return show(
        request,
        "console/keys/burn.html",
        title=f"Another alias for {found.attribute}",
        area="keys",
        question="What another alias would touch. Nothing is changed yet.",
        domain=domain,
        trail=(Crumb("Keys and trust groups", reverse("console:keys", args=[domain.name])),),
        status=status,
        impact=found,
        confirm=found.attribute,
        form=form,
    )
