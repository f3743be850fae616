"""Bundles and notices on their way: what to send next, what was sent, what to send again.

Messages are hints; the rows are the truth. A row counts as sent only once the broker gave its
receipt, and as applied only on the audience's signed acknowledgement.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, Q
from django.utils import timezone

from adminapp.core.authority import get_authority
from adminapp.distribution.models import Bundle, Notice
from adminapp.distribution.recipients import sealing_key_of
from adminapp.outbox import relay
from adminapp.outbox import services as outbox
from policyengine.bundles import addresses, messages

RESEND_AFTER = timedelta(seconds=15)
UNACKNOWLEDGED = (Bundle.State.BUILT, Bundle.State.SENT, Bundle.State.RECEIVED)


@dataclass(frozen=True)
class Parcel:
    """One message for a control queue."""

    queue: str
    body: bytes


def request_push(bundle: Bundle) -> None:
    """Have a bundle sent; call it inside the transaction that wrote it."""
    outbox.put(topic="push", key=f"push:{bundle.pk}:0", payload={"bundle": bundle.pk})


def request_resend(bundle: Bundle) -> None:
    """Have a bundle sent once more."""
    stamp = int(timezone.now().timestamp() * 1000)
    outbox.put(topic="push", key=f"push:{bundle.pk}:r{stamp}", payload={"bundle": bundle.pk})


def request_notice(notice: Notice) -> None:
    """Have a notice sent ahead of everything else."""
    outbox.put(topic="notice", key=f"notice:{notice.pk}:0", payload={"notice": notice.pk})


def restart(bundle: Bundle) -> None:
    """Send a bundle again to an audience that shows it does not hold it."""
    Bundle.objects.filter(pk=bundle.pk).update(state=Bundle.State.BUILT, sent_at=timezone.now())
    request_rebuild(bundle)


def request_rebuild(bundle: Bundle) -> None:
    """Have a bundle sealed anew so that it stands alone, and sent."""
    stamp = int(timezone.now().timestamp())
    outbox.put(topic="rebuild", key=f"rebuild:{bundle.pk}:{stamp}", payload={"bundle": bundle.pk})


def bundle_parcel(bundle_id: int) -> Parcel | None:
    """What to send for a bundle, or None when it was superseded or acknowledged meanwhile."""
    bundle = Bundle.objects.select_related("domain").filter(pk=bundle_id).first()
    if bundle is None or bundle.state not in UNACKNOWLEDGED:
        return None
    payload = bytes(bundle.message)
    return _parcel(bundle.audience, "bundle", bundle.domain.name, payload)


def bundle_sent(bundle_id: int) -> None:
    """The broker has it in its keeping."""
    Bundle.objects.filter(pk=bundle_id, state=Bundle.State.BUILT).update(
        state=Bundle.State.SENT, sent_at=timezone.now()
    )
    Bundle.objects.filter(pk=bundle_id, state=Bundle.State.SENT).update(sent_at=timezone.now())


def notice_parcel(notice_id: int) -> Parcel | None:
    """What to send for a notice, sealed now if it was not yet, or None once it is applied."""
    notice = (
        Notice.objects.select_related("domain", "revocation__principal")
        .filter(pk=notice_id)
        .exclude(state=Notice.State.APPLIED)
        .first()
    )
    if notice is None:
        return None
    if notice.message is None:
        _seal(notice)
    return _parcel(notice.audience, "notice", notice.domain.name, bytes(notice.message))


def notice_sent(notice_id: int) -> None:
    """The broker has it in its keeping."""
    Notice.objects.filter(pk=notice_id, state=Notice.State.BUILT).update(state=Notice.State.SENT)
    Notice.objects.filter(pk=notice_id).exclude(state=Notice.State.APPLIED).update(
        sent_at=timezone.now()
    )


def resend_unacknowledged(now: datetime | None = None) -> int:
    """Ask again for everything that was sent and not acknowledged in time; returns how much."""
    moment = now or timezone.now()
    late = moment - RESEND_AFTER
    bundles = [_again("push", "bundle", pk, moment) for pk in _late_bundles(late)]
    notices = [_again("notice", "notice", pk, moment) for pk in _late_notices(late)]
    return sum(bundles) + sum(notices)


def _again(topic: str, name: str, pk: int, moment: datetime) -> bool:
    """Ask once more, unless asking before has not been dealt with (the broker may be away)."""
    if relay.waiting(prefix=f"{topic}:{pk}:"):
        return False
    stamp = int(moment.timestamp() * 1000)
    outbox.put(topic=topic, key=f"{topic}:{pk}:{stamp}", payload={name: pk})
    return True


def _late_bundles(late: datetime) -> list[int]:
    found = Bundle.objects.filter(state__in=UNACKNOWLEDGED, built_at__lt=late)
    newest = found.filter(Q(sent_at__isnull=True) | Q(sent_at__lt=late))
    return list(newest.values_list("pk", flat=True))


def _late_notices(late: datetime) -> list[int]:
    waiting = Notice.objects.exclude(state=Notice.State.APPLIED)
    found = waiting.filter(
        Q(sent_at__lt=late) | Q(sent_at__isnull=True, revocation__created__lt=late)
    )
    return list(found.values_list("pk", flat=True))


def newest_notice(audience: str, domain_id: int) -> int:
    """The number of the last notice written for an audience, 0 when there is none."""
    found = Notice.objects.filter(audience=audience, domain_id=domain_id)
    return found.aggregate(top=Max("number"))["top"] or 0


def _seal(notice: Notice) -> None:
    authority = get_authority()
    revocation = notice.revocation
    document = messages.Notice(
        number=notice.number,
        audience=notice.audience,
        domain=notice.domain.name,
        revocation=revocation.uid,
        deny=(revocation.principal.handle,),
        reason="revoked",
        issued=int(revocation.created.timestamp()),
    )
    sealed = messages.seal_notice(
        document,
        sign=lambda context, payload: authority.sign("notice", context, payload),
        recipient=sealing_key_of(notice.audience),
    )
    Notice.objects.filter(pk=notice.pk, message__isnull=True).update(message=sealed)
    notice.refresh_from_db()


def _parcel(audience: str, kind: str, domain: str, payload: bytes) -> Parcel:
    return Parcel(
        queue=addresses.control_queue(audience),
        body=messages.encode_control(kind, domain, payload),
    )
