"""Metrics of the control plane for Prometheus, beside the API: for a scraper, not for people.

Who has the token may read; without one set, this machine alone and in development alone. Anybody
else does not learn that there is such an address.
"""

from __future__ import annotations

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe

from adminapp.core.exposition import CONTENT_TYPE, exposition
from adminapp.distribution.metrics import collect

_LOOPBACK = frozenset({"127.0.0.1", "::1"})


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Everything as text."""
    if not _may_read(request):
        raise Http404
    return HttpResponse(exposition(collect()), content_type=CONTENT_TYPE)


def _may_read(request: HttpRequest) -> bool:
    token = settings.METRICS_TOKEN
    if token:
        sent = request.headers.get("Authorization", "")
        return constant_time_compare(sent.encode(), f"Bearer {token}".encode())
    forwarded = "X-Forwarded-For" in request.headers
    local = request.META.get("REMOTE_ADDR") in _LOOPBACK and not forwarded
    return settings.ENVIRONMENT == "development" and local
