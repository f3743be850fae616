"""Jobs: is the background work getting on?"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from adminapp.console.pages import in_domain, show
from adminapp.console.tables import JobTable, configured
from adminapp.distribution import selectors
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
        "or when keys change.",
        domain=domain,
        live=True,
        parts={"rows": "console/jobs/_rows.html"},
        table=configured(request, JobTable(jobs)),
        epochs=selectors.encoding_epochs(domain)[:10],
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
        question=f"Recomputes every encoding of epoch {job.epoch.number}.",
        domain=domain,
        live=True,
        parts={"state": "console/jobs/_detail.html"},
        job=job,
    )
