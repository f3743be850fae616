"""What audiences say that they hold; taken only from messages whose signature was checked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.utils import timezone

from adminapp.audit import selectors as audit_selectors
from adminapp.audit import services as audit
from adminapp.distribution import delivery, rollouts, timeline
from adminapp.distribution.models import Bundle, Notice, Recipient, Rollout
from adminapp.distribution.recipients import Audience, recipient
from adminapp.identity.models import Domain
from policyengine.bundles import messages
from policyengine.bundles.framing import Request

State = Recipient.State
STRAY = "bundle.refused"
STRAY_PAUSE = timedelta(minutes=1)


def acknowledge(sender: Audience, request: Request) -> None:
    """Take a signed acknowledgement.

    Raises:
        RejectedError: it does not verify.
    """
    ack = messages.verify_ack(request, sender.verify_key)
    domain = Domain.objects.filter(name=ack.domain).first()
    if domain is None:
        return
    take = _bundle_ack if ack.what == "bundle" else _notice_ack
    if take(domain, ack):
        record_held(sender.address, {domain.name: domain}, ack.held, at=ack.at)
        _wake(domain)


def record_held(
    address: str, domains: Mapping[str, Domain], held: Mapping[str, Mapping[str, Any]], *, at: int
) -> None:
    """Keep what an audience says it holds of these domains, unless it said so before."""
    for name, domain in domains.items():
        row = recipient(address, domain)
        # A report that is older than the last one was replayed or overtaken on the way.
        if at < row.reported_at:
            continue
        _store(row, held.get(name), at)


def _store(row: Recipient, report: Mapping[str, Any] | None, at: int) -> None:
    held = report or {"revision": 0, "digest": "", "notice": 0, "epochs": {}}
    behind = held["revision"] < row.domain.revision
    state = row.state if row.state == State.REJECTED and behind else _state(behind)
    Recipient.objects.filter(pk=row.pk, reported_at__lte=at).update(
        revision=held["revision"],
        digest=held["digest"],
        notice=held["notice"],
        epochs=held["epochs"],
        state=state,
        reason=row.reason if state == State.REJECTED else "",
        last_seen=timezone.now(),
        reported_at=at,
    )
    _settle(row, held)


def _settle(row: Recipient, held: Mapping[str, Any]) -> None:
    """What is in force, or older than that, needs no further sending."""
    waiting = Bundle.objects.filter(
        audience=row.audience,
        domain=row.domain_id,
        revision__lte=held["revision"],
        state__in=delivery.UNACKNOWLEDGED,
    )
    waiting.filter(digest=held["digest"]).update(
        state=Bundle.State.APPLIED, acknowledged_at=timezone.now()
    )
    waiting.exclude(digest=held["digest"]).update(state=Bundle.State.SUPERSEDED)


def _state(behind: bool) -> str:
    return State.BEHIND if behind else State.APPLIED


def _bundle_ack(domain: Domain, ack: messages.Acknowledgement) -> bool:
    """Whether the acknowledgement speaks of a bundle that was built for this audience."""
    bundle = (
        Bundle.objects.defer("message")
        .filter(audience=ack.audience, domain=domain, revision=ack.number, digest=ack.digest)
        .first()
    )
    if bundle is None:
        if ack.status == "rejected":
            _note_stray(domain=domain, ack=ack)
        return False
    now = timezone.now()
    rows = Bundle.objects.filter(pk=bundle.pk)
    if ack.status == "applied" or _in_force(domain, ack):
        rows.exclude(state=Bundle.State.APPLIED).update(
            state=Bundle.State.APPLIED, reason="", acknowledged_at=now
        )
    elif ack.status == "rejected":
        _rejected(bundle, ack)
    else:
        rows.filter(state__in=(Bundle.State.BUILT, Bundle.State.SENT)).update(
            state=Bundle.State.RECEIVED
        )
    return True


@audit.change
def _note_stray(*, domain: Domain, ack: messages.Acknowledgement) -> None:
    """It refused a bundle that was never built for it: somebody else wrote to its queue.

    Whoever can do that can do it often, so the audit takes one entry a minute for each reason.
    """
    minute = timezone.now() - STRAY_PAUSE
    noted = audit_selectors.search(action=STRAY, object_id=ack.audience, since=minute)
    if any(entry.after["reason"] == ack.reason for entry in noted):
        return
    kind, _, name = ack.audience.partition(":")
    audit.write(
        actor=None,
        action=STRAY,
        domain_name=domain.name,
        object_type=kind,
        object_id=ack.audience,
        object_name=name,
        after={"reason": ack.reason[:64], "revision": ack.number},
    )


def _in_force(domain: Domain, ack: messages.Acknowledgement) -> bool:
    """A second copy is refused as a replay while the first one is in force: that is no failure."""
    return bool(ack.held.get(domain.name, {}).get("digest") == ack.digest)


def _rejected(bundle: Bundle, ack: messages.Acknowledgement) -> None:
    refused = Bundle.objects.filter(pk=bundle.pk).exclude(
        state__in=(Bundle.State.APPLIED, Bundle.State.SUPERSEDED)
    )
    changed = refused.exclude(state=Bundle.State.REJECTED).update(
        state=Bundle.State.REJECTED, reason=ack.reason[:64], acknowledged_at=timezone.now()
    )
    if not changed:
        return
    Recipient.objects.filter(audience=bundle.audience, domain=bundle.domain_id).update(
        state=State.REJECTED, reason=ack.reason[:64]
    )
    if ack.reason == "previous":
        # It holds another bundle than it acknowledged last: it needs one that stands alone.
        delivery.request_rebuild(bundle)


def _notice_ack(domain: Domain, ack: messages.Acknowledgement) -> bool:
    notice = Notice.objects.filter(
        audience=ack.audience, domain=domain, number=ack.number
    ).select_related("revocation")
    found = notice.first()
    if found is None:
        return False
    if ack.status == "applied":
        applied = notice.exclude(state=Notice.State.APPLIED).update(
            state=Notice.State.APPLIED, acknowledged_at=timezone.now()
        )
        if applied:
            agent = ack.audience.partition(":")[2]
            timeline.note(found.revocation, "notice-applied", agent=agent, number=ack.number)
    elif ack.status == "rejected":
        notice.exclude(state=Notice.State.APPLIED).update(state=Notice.State.REJECTED)
    return True


def _wake(domain: Domain) -> None:
    """Somebody may wait for just this acknowledgement."""
    if Rollout.objects.filter(domain=domain).exclude(state=Rollout.State.COMPLETE).exists():
        rollouts.request_advance(domain)
