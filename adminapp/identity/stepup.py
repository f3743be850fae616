"""Whether the person at a session was asked for the password lately.

A session that was left open or stolen reads what its owner may read; what is hard to take back
asks for the password again.
"""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.http import HttpRequest

_KEY = "confirmed_at"


def note(request: HttpRequest) -> None:
    """The password was right a moment ago."""
    request.session[_KEY] = int(time.time())


def is_fresh(request: HttpRequest) -> bool:
    """Whether that was less than `STEP_UP_SECONDS` ago."""
    at = request.session.get(_KEY)
    return isinstance(at, int) and 0 <= time.time() - at < settings.STEP_UP_SECONDS


def on_sign_in(sender: Any, request: HttpRequest | None, **_: Any) -> None:
    """Django tells of every sign-in, by whichever way it came."""
    if request is not None and hasattr(request, "session"):
        note(request)
