"""What every page does with a change that waits for a second person."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from adminapp.core.errors import AwaitingApproval


class ShowWhatWaits:
    """Leads to the change set that was made of the change, wherever it was asked for."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, AwaitingApproval):
            return None
        messages.info(request, f"Nothing is in force yet: {error.message}.")
        place = reverse("console:change-set", args=[error.domain, error.change_set])
        if getattr(request, "htmx", False):
            answer = HttpResponse(status=204)
            answer["HX-Redirect"] = place
            return answer
        return HttpResponseRedirect(place)
