"""Jobs: is the background work getting on?"""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST, require_safe

from adminapp.console import forms
from adminapp.console.pages import in_domain, managers_only, show
from adminapp.console.tables import JobTable, configured
from adminapp.core.errors import ServiceError
from adminapp.distribution import activity, selectors, usage
from adminapp.identity.models import Domain
from adminapp.outbox import selectors as outbox


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    jobs = selectors.recompute_jobs(domain)
    return show(
        request,
        "console/jobs/index.html",
        title="Jobs",
        area="jobs",
        question="Is the background work getting on? Encodings are recomputed after a revocation "
        "or when keys change: no more of them than need be.",
        domain=domain,
        live=True,
        parts={"rows": "console/jobs/_rows.html"},
        table=configured(request, JobTable(jobs)),
        epochs=selectors.encoding_epochs(domain)[:10],
        runs=usage.runs(domain)[:10],
        use=usage.of_domain(domain),
        ranking=usage.ranking(domain),
        queue=outbox.summary() if request.user.is_superuser else None,
    )


@require_safe
@in_domain
def detail(request: HttpRequest, domain: Domain, uid: str) -> HttpResponse:
    job = get_object_or_404(selectors.recompute_jobs(domain), uid=uid)
    return show(
        request,
        "console/jobs/detail.html",
        title=f"Job {job.uid[:8]}",
        area="jobs",
        question=f"Encodings of epoch {job.epoch.number} are computed anew.",
        domain=domain,
        live=True,
        parts={"state": "console/jobs/_detail.html"},
        job=job,
        revocations=selectors.revocations(request.user).filter(rollout=job.rollout)
        if job.rollout
        else (),
    )


@require_POST
@in_domain
@managers_only
def count(request: HttpRequest, domain: Domain) -> HttpResponse:
    """Have the domain's decision logs counted now."""
    try:
        activity.request_run(actor=request.user, domain=domain)
    except ServiceError as error:
        forms.tell(request, error, "Nothing is counted")
    else:
        messages.success(request, "The logs are being counted; the page shows how far it is.")
    return redirect("console:jobs", domain.name)
