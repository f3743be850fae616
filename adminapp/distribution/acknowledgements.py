"""Acknowledgements of bundles and notices, taken in as they come, many at a time.

Each agent says twice of each bundle and each notice, that it is there and that it is in force:
what they speak of is read and written together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from django.db import transaction
from django.utils import timezone

from adminapp.audit import selectors as audit_selectors
from adminapp.audit import services as audit
from adminapp.distribution import delivery, rollouts, timeline
from adminapp.distribution.models import Bundle, Notice, PolicyRollout, Recipient, Revocation
from adminapp.distribution.recipients import Audience
from adminapp.distribution.reports import Report, record_held
from adminapp.identity.models import Domain
from policyengine.bundles import messages
from policyengine.bundles.framing import Request

STRAY = "bundle.refused"
STRAY_PAUSE = timedelta(minutes=1)
_State = Bundle.State
_About: TypeAlias = tuple[str, int, int, str]


@dataclass(frozen=True)
class _Told:
    """An acknowledgement, whose signature was checked, and the domain that it speaks of."""

    domain: Domain
    ack: messages.Acknowledgement

    @property
    def about(self) -> _About:
        """Whose bundle or notice, of which domain, which number, and which digest."""
        return self.ack.audience, self.domain.pk, self.ack.number, self.ack.digest

    @property
    def in_force(self) -> bool:
        """Whether it says that a bundle is.

        A second copy is refused as a replay while the first one is: that is no failure.
        """
        held = self.ack.held.get(self.domain.name, {})
        return self.ack.status == "applied" or held.get("digest") == self.ack.digest


def read(sender: Audience, request: Request) -> messages.Acknowledgement:
    """A signed acknowledgement.

    Raises:
        RejectedError: it does not verify.
    """
    return messages.verify_ack(request, sender.verify_key)


def take(acks: Sequence[messages.Acknowledgement]) -> None:
    """Take in acknowledgements whose signatures were checked."""
    domains = {row.name: row for row in Domain.objects.filter(name__in={a.domain for a in acks})}
    told = [_Told(domains[ack.domain], ack) for ack in acks if ack.domain in domains]
    bundles = [each for each in told if each.ack.what == "bundle"]
    # Of a notice that arrived `applied` follows at once, and says the same of what is held.
    notices = [e for e in told if e.ack.what != "bundle" and e.ack.status != "received"]
    built, written = _built(bundles), _written(notices)
    _note_bundles(bundles, built)
    _note_notices(notices, written)
    taken = [each for each in bundles if each.about in built]
    taken += [each for each in notices if each.about in written]
    # Also where nothing like that was built: what it says of itself is then shown as untrue.
    strange = [e for e in bundles if e.ack.status == "applied" and e.about not in built]
    speaking = {id(each) for each in (*taken, *strange)}
    record_held(
        Report(each.ack.audience, {each.domain.name: each.domain}, each.ack.held, at=each.ack.at)
        for each in told
        if id(each) in speaking
    )
    # That something arrived is shown; whoever waits, waits for it to be in force.
    _wake({each.domain.pk for each in taken if each.ack.status != "received"})


def _built(told: Sequence[_Told]) -> dict[_About, Bundle]:
    """The bundles that these speak of, where they were built for who speaks."""
    rows = Bundle.objects.defer("message").filter(
        audience__in={each.ack.audience for each in told},
        domain__in={each.domain.pk for each in told},
        revision__in={each.ack.number for each in told},
    )
    return {(row.audience, row.domain_id, row.revision, row.digest): row for row in rows}


def _written(told: Sequence[_Told]) -> dict[_About, Notice]:
    """The notices that these speak of, whatever digest they say."""
    rows = Notice.objects.defer("message").filter(
        audience__in={each.ack.audience for each in told},
        domain__in={each.domain.pk for each in told},
        number__in={each.ack.number for each in told},
    )
    found = {(row.audience, row.domain_id, row.number): row for row in rows}
    return {each.about: found[each.about[:3]] for each in told if each.about[:3] in found}


def _note_bundles(told: Sequence[_Told], built: Mapping[_About, Bundle]) -> None:
    applied, received, refused = [], [], []
    for each in told:
        row = built.get(each.about)
        if row is None:
            if each.ack.status == "rejected":
                _note_stray(domain=each.domain, ack=each.ack)
        elif each.in_force:
            applied.append(row.pk)
        elif each.ack.status == "rejected":
            refused.append((row, each.ack))
        else:
            received.append(row.pk)
    Bundle.objects.filter(pk__in=received, state__in=(_State.BUILT, _State.SENT)).update(
        state=_State.RECEIVED
    )
    Bundle.objects.filter(pk__in=applied).exclude(state=_State.APPLIED).update(
        state=_State.APPLIED, reason="", acknowledged_at=timezone.now()
    )
    for row, ack in refused:
        _refused(row, ack)


def _refused(bundle: Bundle, ack: messages.Acknowledgement) -> None:
    mine = Bundle.objects.filter(pk=bundle.pk)
    changed = mine.exclude(state__in=(_State.APPLIED, _State.SUPERSEDED, _State.REJECTED)).update(
        state=_State.REJECTED, reason=ack.reason[:64], acknowledged_at=timezone.now()
    )
    if not changed:
        return
    Recipient.objects.filter(audience=bundle.audience, domain=bundle.domain_id).update(
        state=Recipient.State.REJECTED, reason=ack.reason[:64]
    )
    if ack.reason == "previous" or bundle.form == Bundle.Form.DELTA:
        # It holds another bundle than it acknowledged last: it needs one that stands alone.
        delivery.request_rebuild(bundle)


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


def _note_notices(told: Sequence[_Told], written: Mapping[_About, Notice]) -> None:
    by_status: dict[str, set[int]] = {"applied": set(), "rejected": set()}
    for each in told:
        if each.about in written:
            by_status[each.ack.status].add(written[each.about].pk)
    if by_status["applied"]:
        _applied(by_status["applied"])
    rejected = Notice.objects.filter(pk__in=by_status["rejected"])
    rejected.exclude(state=Notice.State.APPLIED).update(state=Notice.State.REJECTED)


@transaction.atomic
def _applied(notice_ids: Collection[int]) -> None:
    """The state and the line of the timeline, both or neither: who dies in between is told again,
    and would find it applied already.
    """
    rows = Notice.objects.select_for_update(of=("self",)).select_related("revocation")
    open_still = rows.filter(pk__in=notice_ids).exclude(state=Notice.State.APPLIED)
    fresh = list(open_still.defer("message").order_by("pk"))
    Notice.objects.filter(pk__in=[row.pk for row in fresh]).update(
        state=Notice.State.APPLIED, acknowledged_at=timezone.now()
    )
    timeline.note_several(
        (
            (row.revocation, {"agent": row.audience.partition(":")[2], "number": row.number})
            for row in fresh
        ),
        "notice-applied",
    )


def _wake(domain_ids: Collection[int]) -> None:
    """Somebody may wait for just these acknowledgements."""
    ended = (Revocation.State.COMPLETE, Revocation.State.FAILED)
    # A guest's agents answer in the domain that it visits, for a revocation in its own.
    revoking = Revocation.objects.filter(notices__domain__in=domain_ids).exclude(state__in=ended)
    waiting = set(revoking.values_list("domain_id", flat=True))
    staged = PolicyRollout.objects.filter(
        domain__in=domain_ids, state=PolicyRollout.State.RUNNING
    ).values_list("domain_id", flat=True)
    waiting |= {*staged, *rollouts.running_in(domain_ids)}
    for row in Domain.objects.filter(pk__in=waiting):
        rollouts.request_look(row)
