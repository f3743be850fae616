"""Clients ask for keys of their filters over the bus: taken here, answered by a worker.

What takes requests signs leases too, and must not wait for attribute-based encryption: it checks
the signature and notes the work. The answer, a refusal too, goes to the client's control queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from adminapp.core.authority import get_authority
from adminapp.distribution import filterkeys
from adminapp.distribution.delivery import Parcel
from adminapp.distribution.recipients import Audience
from adminapp.identity.models import Principal
from adminapp.outbox import selectors as queued
from adminapp.outbox import services as outbox
from policyengine.bundles import (
    FILTER_KEY,
    EpochKey,
    FilterAnswer,
    FilterRequest,
    Request,
    addresses,
    encode_control,
    seal_filter_answer,
    verify_filter_request,
)
from policyengine.errors import RejectedError
from policyengine.primitives.canonical import unb64

MOST_WAITING = 64
"""Most requests of one client that wait to be answered; those beyond are dropped."""
_LONGEST_REASON = 1000


def accept(sender: Audience, request: Request) -> None:
    """Note that a client asks; a request that came before changes nothing.

    Raises:
        RejectedError: it does not verify, or is of somebody who has no filters.
    """
    asked = verify_filter_request(request, sender.verify_key)
    row = sender.row
    if not isinstance(row, Principal):
        raise RejectedError("audience", "only clients read by filters")
    # INVARIANT: guests have no keys of another domain, and whoever is revoked has none at all.
    if asked.domain not in {domain.name for domain in sender.domains}:
        raise RejectedError("audience", "the client has no keys of that domain")
    prefix = f"{FILTER_KEY}:{row.handle}:"
    if queued.unfinished(prefix=prefix) >= MOST_WAITING:
        raise RejectedError("too-often", "so many requests wait already")
    outbox.put(topic=FILTER_KEY, key=f"{prefix}{asked.request}", payload=asked.to_json())


def answer_parcel(payload: Mapping[str, Any]) -> Parcel | None:
    """The answer to a noted request, sealed for its client; None where there is nobody left.

    Raises:
        AuthorityUnavailable: nothing was given, and nothing is known to be refused.
    """
    asked = FilterRequest.from_json(payload)
    _, handle = addresses.split_audience(asked.audience)
    living = Principal.objects.filter(handle=handle, state=Principal.State.ACTIVE)
    principal = living.select_related("domain").exclude(sealing_key="").first()
    if principal is None or principal.domain.name != asked.domain:
        return None
    found = filterkeys.client_filter_keys(
        principal=principal, event_type=asked.type, names=asked.attributes
    )
    answer = FilterAnswer(
        audience=asked.audience,
        domain=asked.domain,
        request=asked.request,
        type=asked.type,
        attributes=asked.attributes,
        at=int(timezone.now().timestamp()),
        reason=" ".join(found.reason.split())[:_LONGEST_REASON],
        again=found.again,
        keys=tuple(EpochKey(each.epoch, each.sealed) for each in found.keys),
    )
    sealed = seal_filter_answer(
        answer,
        sign=lambda context, body: get_authority().sign("policy", context, body),
        recipient=unb64(principal.sealing_key),
    )
    queue = addresses.control_queue(asked.audience)
    return Parcel(queue, encode_control(FILTER_KEY, asked.domain, sealed))
