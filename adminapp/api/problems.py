"""Errors as RFC 9457 problems."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.signals import got_request_exception
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import set_rollback

from adminapp.api.refusals import KeyReused, NotReplayable, TooLarge, VersionMissing
from adminapp.core.authority import AuthorityError
from adminapp.core.errors import (
    AwaitingApproval,
    Conflict,
    Forbidden,
    InUse,
    Invalid,
    OverQuota,
    Problem,
    ServiceError,
)

__all__ = ["KeyReused", "NotReplayable", "TooLarge", "VersionMissing", "handle", "problem"]

MEDIA_TYPE = "application/problem+json"
_LOG = logging.getLogger(__name__)

_TITLES = {
    "invalid": "What was sent cannot be accepted",
    "parse": "The body cannot be read",
    "signed-out": "Sign in first",
    "forbidden": "You may not do this",
    "quota": "The domain's quota is used up",
    "not-found": "There is no such thing",
    "method": "This cannot be done here",
    "not-acceptable": "This representation does not exist",
    "in-use": "Others stand on it",
    "stale": "It was changed in the meantime",
    "version-missing": "Say which version you change",
    "too-large": "The body is too large",
    "media-type": "This media type is not understood",
    "key-reused": "The idempotency key stands for another request",
    "throttled": "Too many calls",
    "unavailable": "A part of the system does not answer",
    "failed": "Something went wrong here",
}


_SERVICE_ERRORS: tuple[tuple[type[Exception], int, str], ...] = (
    (Invalid, status.HTTP_400_BAD_REQUEST, "invalid"),
    (Conflict, status.HTTP_412_PRECONDITION_FAILED, "stale"),
    (InUse, status.HTTP_409_CONFLICT, "in-use"),
    (OverQuota, status.HTTP_403_FORBIDDEN, "quota"),
    (Forbidden, status.HTTP_403_FORBIDDEN, "forbidden"),
)
_API_ERRORS: tuple[tuple[type[exceptions.APIException], str], ...] = (
    (exceptions.ValidationError, "invalid"),
    (exceptions.ParseError, "parse"),
    (exceptions.NotAuthenticated, "signed-out"),
    (exceptions.AuthenticationFailed, "signed-out"),
    (exceptions.PermissionDenied, "forbidden"),
    (exceptions.NotFound, "not-found"),
    (exceptions.MethodNotAllowed, "method"),
    (exceptions.NotAcceptable, "not-acceptable"),
    (exceptions.UnsupportedMediaType, "media-type"),
    (exceptions.Throttled, "throttled"),
)


def handle(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler: every error leaves as a problem."""
    set_rollback()
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    elif isinstance(error, RequestDataTooBig):
        error = TooLarge()
    elif isinstance(error, SuspiciousOperation):
        error = exceptions.ParseError()
    if isinstance(error, AwaitingApproval):
        return awaiting(error)
    if isinstance(error, ServiceError):
        return _service_problem(error)
    if isinstance(error, exceptions.APIException):
        return _api_problem(error)
    if isinstance(error, AuthorityError):
        _LOG.error("the trusted authority failed: %s", error)
        return problem(
            status.HTTP_503_SERVICE_UNAVAILABLE,
            "unavailable",
            "the trusted authority does not answer; nothing was changed",
        )
    return _unexpected(error, context)


def problem(
    code: int,
    kind: str,
    detail: str,
    errors: list[dict[str, Any]] | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    members: Mapping[str, Any] | None = None,
) -> Response:
    """A problem response; `members` are further members of its body."""
    body: dict[str, Any] = {
        "type": f"urn:portcullis:problem:{kind}",
        "title": _TITLES[kind],
        "status": code,
        "detail": detail,
    }
    if errors:
        body["errors"] = errors
    body.update(members or {})
    return Response(body, status=code, headers=headers, content_type=MEDIA_TYPE)


def awaiting(error: AwaitingApproval) -> Response:
    """What is wanted was understood and waits for a second person: no problem at all."""
    body = {
        "change_set": error.change_set,
        "domain": error.domain,
        "state": "submitted",
        "detail": error.message,
    }
    place = f"/api/v1/change-sets/{error.change_set}"
    return Response(body, status=status.HTTP_202_ACCEPTED, headers={"Location": place})


def _service_problem(error: ServiceError) -> Response:
    for kind_of, code, kind in _SERVICE_ERRORS:
        if isinstance(error, kind_of):
            errors = [each.to_json() for each in getattr(error, "problems", ())]
            members = getattr(error, "members", None)
            headers = _tag(error) if isinstance(error, Conflict) else None
            return problem(code, kind, error.message, errors, headers, members=members)
    return problem(status.HTTP_400_BAD_REQUEST, "invalid", error.message)


def _tag(error: Conflict) -> dict[str, str]:
    """The version to base the next try on."""
    return {} if error.current is None else {"ETag": f'"{error.current}"'}


def _api_problem(error: exceptions.APIException) -> Response:
    named = next((kind for kind_of, kind in _API_ERRORS if isinstance(error, kind_of)), "")
    kind = named or (error.default_code if error.default_code in _TITLES else "failed")
    headers = {}
    if getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = error.auth_header
    if getattr(error, "wait", None):
        headers["Retry-After"] = str(int(error.wait) + 1)
    errors = None
    detail = str(error.detail)
    if isinstance(error, exceptions.ValidationError):
        found = list(_flatten(error.detail))
        errors = [each.to_json() for each in found]
        detail = "; ".join(each.message for each in found)
    return problem(error.status_code, kind, detail, errors, headers)


def _flatten(detail: Any, pointer: str = "") -> Iterator[Problem]:
    """A serializer's nested errors as problems with JSON pointers."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            whole = name == "non_field_errors"
            yield from _flatten(inner, pointer if whole else f"{pointer}/{_escaped(str(name))}")
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            nested = isinstance(inner, (Mapping, list))
            yield from _flatten(inner, f"{pointer}/{index}" if nested else pointer)
    else:
        yield Problem(pointer, str(detail), kind=getattr(detail, "code", None) or "invalid")


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _unexpected(error: Exception, context: dict[str, Any]) -> Response:
    request = context["request"]
    _LOG.error("%s %s failed", request.method, request.path, exc_info=error)
    # As Django does for every view: test clients and error reporters listen here.
    got_request_exception.send(sender=None, request=request._request)
    return problem(
        status.HTTP_500_INTERNAL_SERVER_ERROR, "failed", "the log says more; nothing was changed"
    )
