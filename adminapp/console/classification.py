"""Classification: how much does each attribute tell about a person?"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from adminapp.catalog.models import Attribute
from adminapp.console import forms
from adminapp.console.pages import in_domain, managers_only, show
from adminapp.core.errors import Conflict, Invalid, ServiceError
from adminapp.identity.models import Domain
from adminapp.privacy import selectors, services
from policyengine.privacy import CLASSES


@dataclass(frozen=True)
class Row:
    """One attribute with its form and what the gate had against it."""

    attribute: Attribute
    form: forms.ClassForm
    said: tuple[str, ...] = ()
    stale: bool = False
    saved: bool = False


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    return _page(request, domain, [_row(each) for each in _attributes(request, domain)])


@require_POST
@in_domain
@managers_only
def classify(request: HttpRequest, domain: Domain, pk: int) -> HttpResponse:
    """Save one row; htmx gets the row alone, a browser without scripts the whole page."""
    attribute = get_object_or_404(selectors.classifications(request.user, domain), pk=pk)
    form = forms.ClassForm(request.POST, classes=CLASSES)
    row = _save(request, attribute, form)
    if request.htmx:
        status = 200 if row.saved else 422
        return render(
            request,
            "console/classification/_row.html",
            {"row": row, "domain": domain, "may_change": True, "classes": CLASSES},
            status=status,
        )
    if row.saved:
        messages.success(request, f"{attribute.name} is classified.")
        return HttpResponseRedirect(reverse("console:classification", args=[domain.name]))
    others = [_row(each) for each in _attributes(request, domain)]
    rows = [row if each.attribute.pk == pk else each for each in others]
    return _page(request, domain, rows, status=422)


def _save(request: HttpRequest, attribute: Attribute, form: forms.ClassForm) -> Row:
    if not form.is_valid():
        return Row(attribute, form)
    try:
        saved = services.classify_attribute(
            actor=request.user,
            attribute=attribute,
            pia_class=form.cleaned_data["pia_class"],
            reason=form.cleaned_data["reason"].strip(),
            expected_version=form.cleaned_data["version"],
        )
    except Conflict:
        fresh = get_object_or_404(selectors.classifications(request.user), pk=attribute.pk)
        return Row(fresh, _row(fresh).form, stale=True)
    except Invalid as error:
        return Row(attribute, form, tuple(forms.said_by(error)))
    except ServiceError as error:
        return Row(attribute, form, (error.message,))
    fresh = get_object_or_404(selectors.classifications(request.user), pk=saved.pk)
    return Row(fresh, _row(fresh).form, saved=True)


def _attributes(request: HttpRequest, domain: Domain) -> list[Attribute]:
    found = selectors.classifications(request.user, domain)
    return list(found.order_by("event_type__name", "order", "id"))


def _row(attribute: Attribute) -> Row:
    form = forms.ClassForm(
        classes=CLASSES,
        initial={
            "pia_class": attribute.pia_class,
            "reason": attribute.pia_reason,
            "version": attribute.version,
        },
        auto_id=f"id_{attribute.pk}_%s",
    )
    return Row(attribute, form)


def _page(
    request: HttpRequest, domain: Domain, rows: list[Row], *, status: int = 200
) -> HttpResponse:
    open_ones = sum(not row.attribute.pia_reason for row in rows)
    return show(
        request,
        "console/classification/index.html",
        title="Classification",
        area="classification",
        question="How much does each attribute tell about a person? The class decides how it must "
        "be protected.",
        domain=domain,
        status=status,
        rows=rows,
        open=open_ones,
        classes=CLASSES,
    )
