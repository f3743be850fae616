"""A POST with an Idempotency-Key is done once, however often it is sent."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.models import KeptAnswer
from adminapp.api.problems import KeyReused, NotReplayable, TooLarge, awaiting
from adminapp.audit.services import changing
from adminapp.core.errors import AwaitingApproval

KEPT_FOR = timedelta(hours=24)
HEADERS = ("Location", "ETag")
MAX_KEY = 255


def once(request: Request, act: Callable[[], Response], *, replayable: bool = True) -> Response:
    """Run `act`, or give the answer that it gave before under this key.

    The kept answer is written in the transaction of the change itself: there is no moment at which
    the change is made and its answer not kept. A refused request leaves nothing behind and may be
    corrected and sent again under the same key.

    Args:
        replayable: False when the answer holds a secret; it is then neither kept nor repeated.
    """
    key = request.headers.get("Idempotency-Key")
    if not key or getattr(request, "_once", False):
        return act()
    request._once = True  # what is called inside may ask again
    if len(key) > MAX_KEY:
        raise ParseError(f"an Idempotency-Key has at most {MAX_KEY} characters")
    fingerprint = _fingerprint(request)
    keep = functools.partial(_keep, request.user, key, fingerprint, replayable=replayable)
    try:
        with changing():
            KeptAnswer.objects.filter(created__lt=timezone.now() - KEPT_FOR).delete()
            kept = KeptAnswer.objects.filter(user=request.user, key=key).first()
            if kept is not None:
                return _again(kept, fingerprint, replayable=replayable)
            return keep(act())
    except AwaitingApproval as error:
        # The change was taken back and lies there as a change set: asked again, it is the same one.
        return keep(awaiting(error))


def _keep(
    user: Any, key: str, fingerprint: str, response: Response, *, replayable: bool
) -> Response:
    KeptAnswer.objects.create(
        user=user,
        key=key,
        fingerprint=fingerprint,
        status=response.status_code,
        body=response.data if replayable else None,
        headers={name: response[name] for name in HEADERS if name in response},
    )
    return response


def _again(kept: KeptAnswer, fingerprint: str, *, replayable: bool) -> Response:
    if kept.fingerprint != fingerprint:
        raise KeyReused
    if not replayable:
        raise NotReplayable
    headers = {**kept.headers, "Idempotency-Replayed": "true"}
    return Response(kept.body, status=kept.status, headers=headers)


def _fingerprint(request: Request) -> str:
    body = _body(request._request)
    kept_to = request.user.limited_to
    door = "" if kept_to is None else ",".join(map(str, sorted(kept_to)))
    said = f"{request.method} {request.get_full_path()}\n{door}\n".encode()
    # Keyed: a body may hold a password, and a plain hash of it could be searched.
    return salted_hmac("adminapp.api.idempotency", said + body, algorithm="sha256").hexdigest()


def _body(request: HttpRequest) -> bytes:
    """The whole body, kept for the parser; files may be larger than what Django keeps."""
    if not hasattr(request, "_body"):
        limit = max(settings.UPLOAD_LIMIT, settings.IMPORT_LIMIT)
        read = request.read(limit + 1)
        if len(read) > limit:
            raise TooLarge
        request._body = read
    return request._body


class OnceMixin:
    """Every POST of the view may carry an Idempotency-Key, its own actions included.

    `replayable` is False where the answer holds a secret.
    """

    replayable = True

    def dispatch(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if request.method == "POST" and hasattr(self, "post"):
            self.post = self._once(self.post)
        return super().dispatch(request, *args, **kwargs)  # type: ignore[misc]

    def _once(self: Any, handler: Callable[..., Response]) -> Callable[..., Response]:
        @functools.wraps(handler)
        def post(request: Request, *args: Any, **kwargs: Any) -> Response:
            act = functools.partial(handler, request, *args, **kwargs)
            return once(request, act, replayable=self.replayable)

        return post
