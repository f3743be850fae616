"""Bearer tokens; browsers use the session and its CSRF check."""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import (
    BaseAuthentication,
    SessionAuthentication,
    get_authorization_header,
)
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from adminapp.identity import selectors, services


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer pct_...`."""

    keyword = "Bearer"

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        parts = get_authorization_header(request).split()
        if not parts or parts[0].lower() != self.keyword.lower().encode():
            return None
        token = selectors.token_by_secret(_secret(parts))
        if token is None:
            # One answer for a wrong, an expired and a withdrawn token.
            raise AuthenticationFailed("the token is not valid")
        services.note_token_use(token=token)
        return token.holder(), token

    def authenticate_header(self, request: Request) -> str:
        return self.keyword


class SessionOnly(SessionAuthentication):
    """A signed-in browser; a stranger gets a 401 as everywhere else."""

    def authenticate_header(self, request: Request) -> str:
        return "Session"


def _secret(parts: list[bytes]) -> str:
    try:
        (_keyword, secret) = parts
        return secret.decode("ascii")
    except ValueError as error:
        raise AuthenticationFailed("the token is not valid") from error
