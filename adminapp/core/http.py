"""Who is calling, when proxies stand in between, and by which door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware

from adminapp.core import journal


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


@sync_and_async_middleware
def remember_door(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware: changes made by a request say whether it came from a program or a page."""
    if iscoroutinefunction(get_response):

        async def aware(request: HttpRequest) -> Any:
            with journal.source(_door(request)):
                return await get_response(request)

        return aware

    def plain(request: HttpRequest) -> Any:
        with journal.source(_door(request)):
            return get_response(request)

    return plain


def _door(request: HttpRequest) -> str:
    return "api" if request.path.startswith("/api/") else "console"
