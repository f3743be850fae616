"""Who is calling, when proxies stand in between."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """The caller's address: the one that the outermost proxy of ours saw.

    X-Forwarded-For is read from the right, one entry for each trusted proxy; entries further left
    were written by whoever called and prove nothing.
    """
    direct = request.META.get("REMOTE_ADDR", "")
    trusted = settings.TRUSTED_PROXIES
    if not trusted:
        return direct
    chain = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")]
    seen = [part for part in chain if part]
    return seen[-trusted] if len(seen) >= trusted else direct
