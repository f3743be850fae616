"""Imports: which files with principals were sent, how far are they, and what was refused?"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from django import forms as fields
from django.conf import settings
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from adminapp.console import forms
from adminapp.console.pages import Crumb, in_domain, managers_only, show
from adminapp.core.errors import Invalid, ServiceError
from adminapp.identity import selectors, services
from adminapp.identity.csvfile import report_lines
from adminapp.identity.imports import OPEN, refusals
from adminapp.identity.models import Domain, PrincipalImport

SHOWN = 50
REFUSALS_SHOWN = 200
STOPPABLE = (PrincipalImport.State.WAITING, PrincipalImport.State.CHECKING)


class ImportForm(forms.StyledForm):
    """A file, and what is to become of it."""

    file = fields.FileField(
        label="File",
        help_text="A CSV table in UTF-8 with the columns name, kind, agents (with ; between), "
        "appointments and attribute.… for each attribute.",
        widget=fields.FileInput(attrs={"accept": ".csv,text/csv"}),
    )
    mode = fields.ChoiceField(
        label="When rows are refused",
        choices=[
            (PrincipalImport.Mode.ALL, "write none of the file"),
            (PrincipalImport.Mode.VALID, "write the others"),
        ],
    )
    dry_run = fields.BooleanField(label="Only check the file, write nothing", required=False)

    def clean_file(self) -> UploadedFile:
        found: UploadedFile = self.cleaned_data["file"]
        if (found.size or 0) > settings.IMPORT_LIMIT:
            most = filesizeformat(settings.IMPORT_LIMIT)
            raise fields.ValidationError(f"This file is too large; {most} is the most.")
        return found


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    return _index(request, domain)


@require_POST
@in_domain
@managers_only
def start(request: HttpRequest, domain: Domain) -> HttpResponse:
    """Keep the file and have it checked, and written if it is sound."""
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return _index(request, domain, form, status=422)
    data = form.cleaned_data
    try:
        job = services.start_import(
            actor=request.user,
            domain=domain,
            chunks=data["file"].chunks(),
            mode=data["mode"],
            dry_run=data["dry_run"],
        )
    except Invalid as error:
        form.take(error.problems)
        return _index(request, domain, form, status=422)
    return HttpResponseRedirect(reverse("console:import", args=[domain.name, job.pk]))


@require_safe
@in_domain
def detail(request: HttpRequest, domain: Domain, pk: int) -> HttpResponse:
    job = _find(request, domain, pk)
    found = list(islice(refusals(job), REFUSALS_SHOWN + 1))
    return show(
        request,
        "console/imports/detail.html",
        title=f"Import {job.pk}",
        area="principals",
        question="How far is it, and which rows were refused?",
        domain=domain,
        trail=(_crumb(domain),),
        parts={"state": "console/imports/_state.html"},
        job=job,
        running=job.state in OPEN,
        stoppable=job.state in STOPPABLE,
        refusals=found[:REFUSALS_SHOWN],
        more=len(found) > REFUSALS_SHOWN,
    )


@require_safe
@in_domain
def report(request: HttpRequest, domain: Domain, pk: int) -> StreamingHttpResponse:
    """Every refused row as a table."""
    job = _find(request, domain, pk)
    answer = StreamingHttpResponse(report_lines(refusals(job)), content_type="text/csv")
    answer["Content-Disposition"] = f'attachment; filename="import-{job.pk}.csv"'
    answer["Cache-Control"] = "no-store"
    return answer


@require_POST
@in_domain
@managers_only
def cancel(request: HttpRequest, domain: Domain, pk: int) -> HttpResponse:
    """Stop an import that has not begun to write."""
    job = _find(request, domain, pk)
    try:
        services.cancel_import(actor=request.user, job=job)
    except ServiceError as error:
        forms.tell(request, error)
    else:
        messages.success(request, "Stopped. Nothing of the file was written.")
    return HttpResponseRedirect(reverse("console:import", args=[domain.name, pk]))


def _find(request: HttpRequest, domain: Domain, pk: int) -> PrincipalImport:
    found: PrincipalImport = get_object_or_404(_of(request.user, domain), pk=pk)
    return found


def _of(user: Any, domain: Domain) -> Iterable[PrincipalImport] | Any:
    return selectors.imports(user).filter(domain=domain)


def _crumb(domain: Domain) -> Crumb:
    return Crumb("Imports", reverse("console:imports", args=[domain.name]))


def _index(
    request: HttpRequest, domain: Domain, form: ImportForm | None = None, status: int = 200
) -> HttpResponse:
    return show(
        request,
        "console/imports/index.html",
        title="Imports",
        area="principals",
        question="Many principals at once, from a table.",
        domain=domain,
        status=status,
        jobs=_of(request.user, domain)[:SHOWN],
        form=form or ImportForm(),
    )
