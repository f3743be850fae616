"""A POST with an Idempotency-Key is done once, however often it is sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.utils import timezone
from django.utils.crypto import salted_hmac
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.models import KeptAnswer
from adminapp.api.problems import KeyReused, NotReplayable
from adminapp.audit.services import changing

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
    if not key:
        return act()
    if len(key) > MAX_KEY:
        raise ParseError(f"an Idempotency-Key has at most {MAX_KEY} characters")
    fingerprint = _fingerprint(request)
    with changing():
        KeptAnswer.objects.filter(created__lt=timezone.now() - KEPT_FOR).delete()
        kept = KeptAnswer.objects.filter(user=request.user, key=key).first()
        if kept is not None:
            return _again(kept, fingerprint, replayable=replayable)
        response = act()
        KeptAnswer.objects.create(
            user=request.user,
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
    body = request._request.body
    said = f"{request.method} {request.get_full_path()}\n".encode()
    # Keyed: a body may hold a password, and a plain hash of it could be searched.
    return salted_hmac("adminapp.api.idempotency", said + body, algorithm="sha256").hexdigest()
