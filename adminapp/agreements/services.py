"""The life of an agreement: proposed, countered, accepted by each side, withdrawn by either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from adminapp.agreements import checks, mapping, terms
from adminapp.agreements.models import Acceptance, Agreement, AgreementRound, Side
from adminapp.agreements.terms import Terms
from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import Conflict, Forbidden, InUse, Invalid
from adminapp.identity import permissions
from adminapp.identity.models import Domain, User
from adminapp.identity.services import record_change

State = Agreement.State
KIND = "agreement"
TAKEN = "taken-agreement"
OPEN = (State.PROPOSED, State.COUNTERED)


@audit.change
def propose_agreement(
    *,
    actor: User | None,
    provider: Domain,
    consumer: Domain,
    name: str,
    terms: Mapping[str, Any],
    side: str | None = None,
    note: str = "",
) -> Agreement:
    """Begin to negotiate. Nothing is in force before a manager of each side has accepted.

    Args:
        provider: whose events are to be opened.
        consumer: whose principals are to be let in; may be any other domain, its parent or child
            included, since nothing crosses between those either without an agreement.
        side: for which side the actor speaks; needed where it manages both.

    Raises:
        Invalid: the terms are wrong, with pointers below `/terms`.
        Forbidden: the actor manages neither.
    """
    if provider.pk == consumer.pk:
        raise Invalid.at("/consumer", "an agreement is between two domains")
    row = Agreement(provider=provider, consumer=consumer, name=name)
    speaker = _speaker(actor, row, side)
    versions.create(row)
    _add_round(actor, row, speaker, data=terms, note=note)
    _record(actor, row, "agreement.proposed", before=None)
    return row


@audit.change
def counter_agreement(
    *,
    actor: User | None,
    agreement: Agreement,
    terms: Mapping[str, Any],
    number: int | None = None,
    side: str | None = None,
    note: str = "",
    expected_version: int | None = None,
) -> Agreement:
    """Propose other terms, in a new round. Terms in force stay so until both accept the new ones.

    Args:
        number: the round that is answered; the newest one where it is left out.

    Raises:
        Conflict: there is a newer round.
        InUse: the agreement was withdrawn or rejected.
    """
    speaker = _speaker(actor, agreement, side)
    row = versions.locked(agreement, expected_version)
    _require_open(row, (*OPEN, State.ACCEPTED))
    before, last = mapping.document(row), mapping.latest(row)
    _require_newest(last, number)
    _add_round(actor, row, speaker, data=terms, note=note, number=last.number + 1)
    if row.state == State.PROPOSED:
        row.state = State.COUNTERED
    versions.save(row)
    _record(actor, row, "agreement.countered", before=before)
    return row


@audit.change
def accept_agreement(
    *,
    actor: User | None,
    agreement: Agreement,
    number: int,
    digest: str,
    side: str | None = None,
    expected_version: int | None = None,
) -> Agreement:
    """Say yes, for one side, to exactly the terms of a round. When both sides have, it is in force.

    A domain that asks for approvals has to be spoken for by two of its managers: what is opened
    tells of its people, or of what its people may see.

    Args:
        number: the round.
        digest: of its terms, as the round shows it: nobody accepts what they have not seen.

    Raises:
        Conflict: there is a newer round, or the terms are others.
        Invalid: the terms name something that this side's domain does not have.
    """
    speaker = _speaker(actor, agreement, side)
    row = versions.locked(agreement, expected_version)
    _require_open(row, (*OPEN, State.ACCEPTED))
    last = mapping.latest(row)
    _require_newest(last, number)
    if digest != last.digest:
        raise Invalid.at("/digest", "these are not the terms of this round", "mismatch")
    if last.rejected_at is not None:
        raise InUse("this round was rejected; make another proposal")
    _require_not_over(last)
    if last.acceptances.filter(side=speaker, actor=actor).exists():
        raise InUse("you have accepted this round already")
    if _agreed(row, last, speaker):
        raise InUse(f"the {speaker} has accepted this round already")
    before = mapping.document(row)
    _check_side(row, speaker, terms.from_json(last.terms))
    Acceptance.objects.create(round=last, side=speaker, actor=actor)
    complete = all(_agreed(row, last, side) for side in Side.values)
    if complete:
        # The first side's model may have changed since its word.
        _check_side(row, _other(speaker), terms.from_json(last.terms), blame="")
        row.state, row.accepted_round = State.ACCEPTED, last
    versions.save(row)
    _record(actor, row, "agreement.accepted", before=before, affects_agents=complete)
    return row


@audit.change
def reject_agreement(
    *,
    actor: User | None,
    agreement: Agreement,
    reason: str = "",
    side: str | None = None,
    expected_version: int | None = None,
) -> Agreement:
    """Say no to the newest round. Terms in force stay; without any the agreement is over."""
    speaker = _speaker(actor, agreement, side)
    row = versions.locked(agreement, expected_version)
    _require_open(row, (*OPEN, State.ACCEPTED))
    last = mapping.latest(row)
    if last.pk == row.accepted_round_id or last.rejected_at is not None:
        raise InUse("there is no proposal to be rejected; withdraw from the agreement instead")
    before = mapping.document(row)
    AgreementRound.objects.filter(pk=last.pk).update(rejected_at=timezone.now())
    over = row.state in OPEN
    if over:
        _close(row, State.REJECTED, speaker, reason)
    versions.save(row)
    _record(actor, row, "agreement.rejected", before=before, after=not over)
    return row


@audit.change
def withdraw_agreement(
    *,
    actor: User | None,
    agreement: Agreement,
    reason: str = "",
    side: str | None = None,
    expected_version: int | None = None,
) -> Agreement:
    """End it at once, by either side alone. What was open is closed with this transaction."""
    speaker = _speaker(actor, agreement, side)
    row = versions.locked(agreement, expected_version)
    _require_open(row, (*OPEN, State.ACCEPTED))
    before, heard = mapping.document(row), row.state == State.ACCEPTED
    _close(row, State.WITHDRAWN, speaker, reason)
    versions.save(row)
    _record(
        actor,
        row,
        "agreement.withdrawn",
        before=before,
        after=False,
        affects_agents=heard,
    )
    return row


# -- shared ----------------------------------------------------------------------------------


def _agreed(row: Agreement, last: AgreementRound, side: str) -> bool:
    """Whether enough managers of a side have said yes; the system's word is enough by itself."""
    words = list(last.acceptances.filter(side=side).values_list("actor", flat=True))
    asks = row.domain_of(side).approval != Domain.Approval.NEVER
    return None in words or len(set(words)) >= (2 if asks else 1)


def _speaker(actor: User | None, row: Agreement, side: str | None) -> str:
    """For which side the actor speaks."""
    if side is not None and side not in Side.values:
        raise Invalid.at("/side", "a side is `provider` or `consumer`")
    if actor is None:
        return side or Side.PROVIDER
    if side is not None:
        permissions.require_manager(actor, row.domain_of(side))
        return side
    sides = [each for each in Side.values if permissions.may_manage(actor, row.domain_of(each))]
    if not sides:
        raise Forbidden("only managers of one of the two domains may do this")
    if len(sides) > 1:
        raise Invalid.at("/side", "you may speak for both domains; say for which side")
    return str(sides[0])


def _add_round(
    actor: User | None,
    row: Agreement,
    side: str,
    *,
    data: Mapping[str, Any],
    note: str,
    number: int = 1,
) -> AgreementRound:
    now = timezone.now()
    found = terms.read(data, now=now)
    if found.ends <= now:
        raise Invalid.at("/terms/ends", "this end is past already")
    _check_side(row, side, found)
    made = AgreementRound(
        agreement=row,
        number=number,
        side=side,
        terms=found.to_json(),
        digest=found.digest(provider=row.provider.name, consumer=row.consumer.name, name=row.name),
        starts=found.starts,
        ends=found.ends,
        note=note,
        actor=actor,
    )
    versions.check(made)
    made.save(force_insert=True)
    row.__dict__.get("_prefetched_objects_cache", {}).pop("rounds", None)
    return made


def _check_side(row: Agreement, side: str, found: Terms, blame: str | None = None) -> None:
    problems = checks.problems(found, row.domain_of(side), side)
    if not problems:
        return
    if blame is not None:
        # What exactly is missing there is not for the ears of this side.
        raise InUse(f"the model of the {side} no longer has all that these terms name")
    raise Invalid(problems)


def _require_open(row: Agreement, states: tuple[str, ...]) -> None:
    if row.state not in states:
        raise InUse(f"this agreement is {row.state}")


def _require_newest(last: AgreementRound, number: int | None) -> None:
    if number is not None and number != last.number:
        raise Conflict(
            f"round {number} is not the newest one", expected=number, current=last.number
        )


def _require_not_over(last: AgreementRound) -> None:
    if last.ends <= timezone.now():
        raise InUse("the time of these terms is over; make another proposal")


def _close(row: Agreement, state: str, side: str, reason: str) -> None:
    row.state, row.closed_at, row.closed_by = state, timezone.now(), side
    row.reason = reason.strip()


def _other(side: str) -> str:
    return Side.CONSUMER if side == Side.PROVIDER else Side.PROVIDER


def _record(
    actor: User | None,
    row: Agreement,
    action: str,
    *,
    before: dict[str, Any] | None,
    after: bool = True,
    affects_agents: bool = False,
) -> None:
    """Both domains keep what happened, and both get a new revision when something takes effect."""
    row.__dict__.get("_prefetched_objects_cache", {}).pop("rounds", None)
    document = mapping.document(row) if after else None
    # It is an object of the provider's: the consumer's own model does not hold it, so that going
    # back to an earlier revision there neither proposes nor withdraws anything.
    for domain, kind, key in (
        (row.provider, KIND, row.name),
        (row.consumer, TAKEN, mapping.foreign_key(row)),
    ):
        record_change(
            actor=actor,
            domain=domain,
            action=action,
            object_type=kind,
            object_id=row.pk,
            object_name=key,
            before=before,
            after=document,
            affects_agents=affects_agents,
            # Never held for an approval: a proposal opens nothing, and what opens something has
            # its second person in the other side (and one more where the domain asks for it).
            revokes=True,
        )
