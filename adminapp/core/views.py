"""Whether the control plane is up."""

from __future__ import annotations

from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe


@require_safe
def health(_request: HttpRequest) -> JsonResponse:
    """200 when the database answers; says nothing else to a stranger."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return JsonResponse({"status": "ok"})
