"""Counts failed sign-ins by name and by address, in a window that starts at the first."""

from __future__ import annotations

import hashlib
import time

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest

from adminapp.core.http import client_address


def seconds_to_wait(request: HttpRequest, username: str) -> int:
    """How long sign-in stays closed for this name or address; 0 when it is open."""
    return max(
        _remaining(_name_key(username), settings.SIGN_IN_FAILURES_PER_NAME),
        _remaining(_address_key(request), settings.SIGN_IN_FAILURES_PER_ADDRESS),
    )


def note_failure(request: HttpRequest, username: str) -> None:
    for key in (_name_key(username), _address_key(request)):
        # `add` and `incr` are atomic in every cache; the window never moves while it runs.
        if cache.add(key, 1, settings.SIGN_IN_WINDOW_SECONDS):
            cache.set(f"{key}:until", _until(), settings.SIGN_IN_WINDOW_SECONDS)
        else:
            _increase(key)


def forget(_request: HttpRequest, username: str) -> None:
    """A success clears the name. The address keeps its count: it may be guessing other names."""
    cache.delete(_name_key(username))


def _increase(key: str) -> None:
    try:
        cache.incr(key)
    except ValueError:  # expired between the two calls
        cache.set(key, 1, settings.SIGN_IN_WINDOW_SECONDS)


def _remaining(key: str, limit: int) -> int:
    if cache.get(key, 0) < limit:
        return 0
    until = cache.get(f"{key}:until", _until())
    return max(1, int(until - time.time()))


def _until() -> float:
    return time.time() + settings.SIGN_IN_WINDOW_SECONDS


def _name_key(username: str) -> str:
    # Hashed: names hold characters that not every cache takes.
    return f"sign-in:name:{hashlib.sha256(username.casefold().encode()).hexdigest()}"


def _address_key(request: HttpRequest) -> str:
    return f"sign-in:address:{hashlib.sha256(client_address(request).encode()).hexdigest()}"
