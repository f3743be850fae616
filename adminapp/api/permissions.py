"""Who may call at all; what they may do to an object is decided by the services."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.permissions import SAFE_METHODS, BasePermission

from adminapp.identity import stepup
from adminapp.identity.models import ApiToken

if TYPE_CHECKING:  # these import the default permissions, which is this module
    from rest_framework.request import Request
    from rest_framework.views import APIView


class SignedIn(BasePermission):
    """A signed-in user whose token, if that is how they came, has the scope that is needed."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        user = request.user
        if not (user and user.is_authenticated and user.is_active):
            return False
        token = request.auth
        if not isinstance(token, ApiToken):
            return self._browser_may(request, view)
        return token.grants(needed_scope(request, view))

    def _browser_may(self, request: Request, view: APIView) -> bool:
        """A session changes something only while its owner is known to sit before it."""
        if needed_scope(request, view) == "read" or stepup.is_fresh(request):
            return True
        self.message = "give your password again at /confirm/ first, or use a token"
        return False


class Operator(SignedIn):
    """Operators of the platform alone."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return super().has_permission(request, view) and request.user.is_superuser


def needed_scope(request: Request, view: APIView) -> str:
    if request.method in SAFE_METHODS:
        return "read"
    return getattr(view, "write_scope", "write")
