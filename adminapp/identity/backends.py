"""Sign-in by name and password, slowed down for those who guess."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from adminapp.identity import throttling


class ThrottledBackend(ModelBackend):
    """Django's own check behind a limit on failures by name and by address."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> Any:
        if request is None or username is None:
            return super().authenticate(request, username=username, password=password, **kwargs)
        if throttling.seconds_to_wait(request, username):
            # Stops the other backends too; the form shows what a wrong password shows.
            raise PermissionDenied
        user = super().authenticate(request, username=username, password=password, **kwargs)
        if user is None:
            throttling.note_failure(request, username)
        else:
            throttling.forget(request, username)
        return user
