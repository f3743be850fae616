"""By which door requests come in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest

from adminapp.core import journal


class SourceMiddleware:
    """Has the changes that a request makes say whether API or console asked for them."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._async = iscoroutinefunction(get_response)
        if self._async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if self._async:
            return self._wait(request)
        with journal.source(_door(request)):
            return self.get_response(request)

    async def _wait(self, request: HttpRequest) -> Any:
        with journal.source(_door(request)):
            return await self.get_response(request)


def _door(request: HttpRequest) -> str:
    return "api" if request.path.startswith("/api/") else "console"
