"""Limits on calls: by user, by address for those who are not signed in, and by domain."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.cache import cache
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.throttling import AnonRateThrottle, UserRateThrottle

from adminapp.api.refusals import TooLarge
from adminapp.core.http import client_address
from adminapp.identity.models import Domain
from adminapp.identity.quotas import requests_per_minute

if TYPE_CHECKING:
    from rest_framework.request import Request


MINUTE = 60


class UserThrottle(UserRateThrottle):
    scope = "user"

    def get_cache_key(self, request: Request, view: object) -> str | None:
        if not (request.user and request.user.is_authenticated):
            return None
        return super().get_cache_key(request, view)


class AddressThrottle(AnonRateThrottle):
    scope = "address"

    def get_ident(self, request: Request) -> str:
        """The address that our own outermost proxy saw, not what a header claims."""
        return client_address(request)


def count_call(request: Request, domain: Domain) -> None:
    """Count a call for the domain that it is about, once; operators' calls are nobody's.

    Args:
        domain: one that the caller may see, or strangers could use up what is others'.

    Raises:
        Throttled: the domain's calls of this minute are used up.
    """
    counted: set[int] = request.__dict__.setdefault("_counted_domains", set())
    if domain.pk in counted or request.user.is_superuser:
        return
    counted.add(domain.pk)
    key = _calls_key(domain)
    cache.add(key, 0, 2 * MINUTE)
    try:
        calls = cache.incr(key)
    except ValueError:  # expired between the two
        return
    limit = requests_per_minute(domain)
    if calls > limit:
        wait = MINUTE - time.time() % MINUTE
        raise Throttled(wait, f"`{domain.name}` has used up its {limit} calls of this minute")


def calls_this_minute(domain: Domain) -> int:
    """How many calls were counted for a domain in the minute that runs."""
    calls: int = cache.get(_calls_key(domain), 0)
    return calls


def _calls_key(domain: Domain) -> str:
    return f"calls:{domain.pk}:{int(time.time() // MINUTE)}"


class CountedMixin:
    """Counts every call, those that are refused included, and bounds what one may send.

    DRF asks for permission first and counts afterwards, so that guessing tokens would be free.
    """

    upload_limit: int | None = None

    def initial(self: Any, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)  # type: ignore[misc]
        claimed = request.META.get("CONTENT_LENGTH") or "0"
        limit = settings.UPLOAD_LIMIT if self.upload_limit is None else self.upload_limit
        if claimed.isdecimal() and int(claimed) > limit:
            raise TooLarge

    def perform_authentication(self: Any, request: Request) -> None:
        try:
            super().perform_authentication(request)  # type: ignore[misc]
        except AuthenticationFailed:
            self.count(request)
            raise

    def check_permissions(self: Any, request: Request) -> None:
        self.count(request)
        super().check_permissions(request)  # type: ignore[misc]

    def count(self: Any, request: Request) -> None:
        super().check_throttles(request)  # type: ignore[misc]

    def check_throttles(self, request: Request) -> None:
        """Done before permission was asked."""
