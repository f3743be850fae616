"""Bundles and notices on their way: what to send next, what was sent, what to send again.

Messages are hints; the rows are the truth. A row counts as sent only once the broker gave its
receipt, and as applied only on the audience's signed acknowledgement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Max, Q, QuerySet
from django.utils import timezone

from adminapp.distribution import notices, roots
from adminapp.distribution.batches import chunked
from adminapp.distribution.models import Bundle, Notice, Recipient, Revocation
from adminapp.identity.models import Domain
from adminapp.outbox import relay
from adminapp.outbox import services as outbox
from policyengine.bundles import addresses, messages

RESEND_AFTER = timedelta(seconds=15)
TOGETHER = 20
"""So many notices go to the broker at once, which then waits for its receipts once."""
MOST_BYTES = 8 * 2**20
"""Of bundles that are sent together."""
UNACKNOWLEDGED = (Bundle.State.BUILT, Bundle.State.SENT, Bundle.State.RECEIVED)


@dataclass(frozen=True)
class Parcel:
    """One message for a control queue."""

    queue: str
    body: bytes


def request_pushes(bundles: Iterable[Bundle]) -> None:
    """Have new bundles sent, in this order; call it inside the transaction that wrote them."""
    work = {f"push:{bundle.pk}:0": {"bundle": bundle.pk} for bundle in bundles}
    outbox.put_all(topic="push", work=work)


def request_resend(bundle: Bundle) -> None:
    """Have a bundle sent once more."""
    stamp = int(timezone.now().timestamp() * 1000)
    outbox.put(topic="push", key=f"push:{bundle.pk}:r{stamp}", payload={"bundle": bundle.pk})


def request_notices(revocation: Revocation) -> None:
    """Have a revocation's notices sent ahead of everything else: one piece of work for all of
    them, so that the last agent does not wait for as many pieces as there are agents.
    """
    key = f"{_notices_of(revocation.pk)}0"
    outbox.put(topic="notice", key=key, payload={"revocation": revocation.pk})


def _notices_of(revocation_id: int) -> str:
    return f"notices:{revocation_id}:"


def restart(bundle: Bundle) -> None:
    """Send a bundle again to an audience that shows it does not hold it, unless that waits
    already: when much is to be done, asking again would be more of it.
    """
    if relay.waiting(prefix=_rebuild_of(bundle)):
        return
    Bundle.objects.filter(pk=bundle.pk).update(state=Bundle.State.BUILT, sent_at=timezone.now())
    request_rebuild(bundle)


def request_rebuild(bundle: Bundle) -> None:
    """Have a bundle sealed anew so that it stands alone, and sent."""
    stamp = int(timezone.now().timestamp())
    key = f"{_rebuild_of(bundle)}{stamp}"
    outbox.put(topic="rebuild", key=key, payload={"bundle": bundle.pk})


def _rebuild_of(bundle: Bundle) -> str:
    return f"rebuild:{bundle.domain_id}:{bundle.pk}:"


def unsent_bundles(bundle_ids: Collection[int]) -> list[list[int]]:
    """Those of these bundles that were neither superseded nor acknowledged, oldest first, few
    enough together to be held in memory.
    """
    open_still = Bundle.objects.filter(pk__in=bundle_ids, state__in=UNACKNOWLEDGED)
    found: list[list[int]] = []
    held = MOST_BYTES
    for pk, size in open_still.order_by("pk").values_list("pk", "size"):
        if held + size > MOST_BYTES:
            found.append([])
            held = 0
        found[-1].append(pk)
        held += size
    return found


def bundle_parcels(bundle_ids: Collection[int]) -> list[Parcel]:
    """What to send for bundles, in order."""
    rows = Bundle.objects.filter(pk__in=bundle_ids).order_by("pk").select_related("domain")
    return [parcel for row in rows.prefetch_related("chunks") for parcel in _parcels(row)]


def _parcels(bundle: Bundle) -> list[Parcel]:
    chunks = [("chunk", chunk.message) for chunk in bundle.chunks.all()]
    sealed = [("bundle", bundle.message), *chunks]
    queue = addresses.control_queue(bundle.audience)
    return [
        *(Parcel(queue, body) for body in roots.with_bundle(bundle)),
        *(
            _parcel(bundle.audience, kind, bundle.domain.name, bytes(payload))
            for kind, payload in sealed
        ),
    ]


def bundles_sent(bundle_ids: Collection[int]) -> None:
    """The broker has them in its keeping."""
    rows = Bundle.objects.filter(pk__in=bundle_ids)
    rows.filter(state__in=(Bundle.State.BUILT, Bundle.State.SENT)).update(
        state=Bundle.State.SENT, sent_at=timezone.now()
    )


def unsent_notices(revocation_id: int) -> list[list[int]]:
    """Which notices of a revocation are to be sent, a few together: those never sent first.

    Few at a time, because the first agents need not wait until the last one's was signed.
    """
    waiting = Notice.objects.filter(revocation=revocation_id).exclude(state=Notice.State.APPLIED)
    found = waiting.order_by(F("sent_at").asc(nulls_first=True), "pk").values_list("pk", flat=True)
    return list(chunked(found, TOGETHER))


def notice_parcels(notice_ids: Sequence[int]) -> list[Parcel]:
    """What to send for notices of one revocation, sealed now where they were not yet; nothing
    for applied ones.
    """
    rows = notices.sealed(notice_ids)
    return [_parcel(row.audience, "notice", row.domain.name, bytes(row.message)) for row in rows]


def notices_sent(notice_ids: Sequence[int], *, at: datetime) -> None:
    """The broker has them in its keeping; `at` they were handed to it.

    An agent may have been quicker than the broker's receipt: then its notice is confirmed by now.
    """
    rows = Notice.objects.filter(pk__in=notice_ids)
    rows.filter(state=Notice.State.BUILT).update(state=Notice.State.SENT)
    rows.filter(~Q(state=Notice.State.APPLIED) | Q(sent_at__isnull=True)).update(sent_at=at)


def resend_unacknowledged(now: datetime | None = None) -> int:
    """Ask again for everything that was sent and not acknowledged in time; returns how much."""
    moment = now or timezone.now()
    late = moment - RESEND_AFTER
    bundles = [_again("push", f"push:{pk}:", {"bundle": pk}, moment) for pk in _late_bundles(late)]
    return sum(bundles) + sum(_notices_again(pk, late, moment) for pk in _late_notices(late))


def _notices_again(revocation_id: int, late: datetime, moment: datetime) -> int:
    # Sealed anew: the key that signed them may be one of an older root.
    count = _unheard(late).filter(revocation=revocation_id).update(message=None)
    again = _again("notice", _notices_of(revocation_id), {"revocation": revocation_id}, moment)
    return count if again else 0


def _again(topic: str, prefix: str, payload: dict[str, int], moment: datetime) -> bool:
    """Ask once more, unless asking before has not been dealt with (the broker may be away)."""
    if relay.waiting(prefix=prefix):
        return False
    stamp = int(moment.timestamp() * 1000)
    outbox.put(topic=topic, key=f"{prefix}{stamp}", payload=payload)
    return True


def _late_bundles(late: datetime) -> list[int]:
    found = Bundle.objects.filter(state__in=UNACKNOWLEDGED, built_at__lt=late)
    newest = found.filter(Q(sent_at__isnull=True) | Q(sent_at__lt=late))
    return list(newest.values_list("pk", flat=True))


def _late_notices(late: datetime) -> list[int]:
    """Revocations with notices that were not acknowledged in time."""
    found = _unheard(late).order_by("revocation").values_list("revocation", flat=True)
    return list(found.distinct())


def _unheard(late: datetime) -> QuerySet[Notice]:
    return Notice.objects.exclude(state=Notice.State.APPLIED).filter(
        Q(sent_at__lt=late) | Q(sent_at__isnull=True, revocation__created__lt=late)
    )


def last_numbers(domain: Domain, audiences: Iterable[str]) -> dict[str, int]:
    """The number of the last notice of each audience; the next one is one more.

    INVARIANT: numbers count on without holes for each audience and domain, so that a lease's
    minimum proves that every notice before it arrived too. What an audience says that it holds
    counts as well: after a restore it may know notices that the database has forgotten.
    """
    found = dict.fromkeys(audiences, 0)
    for chunk in chunked(list(found)):
        mine = {"audience__in": chunk, "domain": domain}
        written = Notice.objects.filter(**mine).order_by().values_list("audience")
        said = Recipient.objects.filter(**mine).values_list("audience", "notice")
        for address, number in (*written.annotate(top=Max("number")), *said):
            found[address] = max(found[address], number)
    return found


def _parcel(audience: str, kind: str, domain: str, payload: bytes) -> Parcel:
    return Parcel(
        queue=addresses.control_queue(audience),
        body=messages.encode_control(kind, domain, payload),
    )
