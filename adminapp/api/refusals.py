"""Errors of the API itself.

Apart from the handler that shows them: parsers and throttles raise them, and are loaded by the very
part of the framework that the handler needs.
"""

from __future__ import annotations

from rest_framework import exceptions, status


class TooLarge(exceptions.APIException):
    """The body has more bytes than are read."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_detail = "the body is too large"
    default_code = "too-large"


class VersionMissing(exceptions.APIException):
    """A change came without If-Match."""

    status_code = status.HTTP_428_PRECONDITION_REQUIRED
    default_detail = "send the version that you change in If-Match, as its ETag said"
    default_code = "version-missing"


class KeyReused(exceptions.APIException):
    """An Idempotency-Key came back with another request."""

    status_code = status.HTTP_422_UNPROCESSABLE_ENTITY
    default_detail = "this Idempotency-Key was sent before with another request"
    default_code = "key-reused"


class NotReplayable(exceptions.APIException):
    """The request was done before, and its answer cannot be given twice."""

    status_code = status.HTTP_409_CONFLICT
    default_detail = "this was done before; its answer holds a secret that is shown only once"
    default_code = "in-use"
