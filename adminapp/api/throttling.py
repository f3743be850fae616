"""Limits on calls: by user, and by address for those who are not signed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.throttling import AnonRateThrottle, UserRateThrottle

from adminapp.api.problems import TooLarge
from adminapp.core.http import client_address

if TYPE_CHECKING:
    from rest_framework.request import Request


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


class CountedMixin:
    """Counts every call, those that are refused included, and bounds what one may send.

    DRF asks for permission first and counts afterwards, so that guessing tokens would be free.
    """

    def initial(self: Any, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)  # type: ignore[misc]
        claimed = request.META.get("CONTENT_LENGTH") or "0"
        if claimed.isdecimal() and int(claimed) > settings.UPLOAD_LIMIT:
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
