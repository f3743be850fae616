"""What a restored database has forgotten and the trusted authority's journal has not.

The authority writes down what it signs before it answers, in a folder of its own. So after the
database was restored from before, the journal knows of revocations and of epochs since. They are
taken up again before any lease is given: nobody who was revoked comes back, and no number of an
epoch is given to other keys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from django.utils import timezone

from adminapp.agreements.models import Agreement
from adminapp.audit import services as audit
from adminapp.audit.answers import known_head
from adminapp.core.authority import AuthorityClient, get_authority
from adminapp.core.errors import ServiceError
from adminapp.distribution import blindepochs, endings, epochs, starting
from adminapp.distribution.endings import Kind, Target
from adminapp.distribution.models import BlindEpoch, EncodingEpoch, Recipient, Revocation
from adminapp.distribution.recipients import recipient
from adminapp.identity.models import Agent, Domain, Principal
from adminapp.roles.models import Appointment, Role
from adminapp.trustgroups.models import KeyEpoch, TrustGroup

log = logging.getLogger("portcullis.recall")

REASON = "revoked before the database was restored"
FORGOTTEN = "forgotten"
_BATCH = 200

Entry = Mapping[str, Any]


def recall(*, restored: bool = False, authority: AuthorityClient | None = None) -> int:
    """Take up what the authority answered since the audit last took its answers in.

    Where nothing was restored there is nothing to take up. It may be asked for again, and by two
    processes at once.

    Args:
        restored: whether the database is known to be older than the journal; without it that is
            concluded from revisions that were signed and do not exist.
        authority: whose journal; the configured one where None.

    Returns:
        How many revocations were carried out again.

    Raises:
        AuthorityError: it does not answer.
    """
    entries = list(_answered(authority or get_authority()))
    if restored or _ahead(entries):
        _reserve(entries)
    known = set(Revocation.objects.values_list("uid", flat=True))
    forgotten = [each for each in entries if _is_notice(each) and each["revocation"] not in known]
    for entry in forgotten:
        _count_on(entry)
    return sum(_again(entry) for entry in forgotten)


def _answered(client: AuthorityClient) -> Iterator[dict[str, Any]]:
    after = known_head().size
    while found := client.journal_entries(after=after, limit=_BATCH):
        yield from (entry for entry in found if entry.get("outcome") == "done")
        after = int(found[-1]["n"])


def _is_notice(entry: Entry) -> bool:
    return (entry["op"], entry.get("purpose")) == ("sign", "notice") and "about" in entry


# -- numbers of epochs --------------------------------------------------------------------------


def _ahead(entries: Iterable[Entry]) -> bool:
    """Whether revisions were signed that the database does not know."""
    known = dict(Domain.objects.values_list("name", "revision"))
    signed = (each for each in entries if each["op"] == "bundle.signed")
    return any(each["revision"] > known.get(each["domain"], each["revision"]) for each in signed)


@audit.change
def _reserve(entries: Iterable[Entry]) -> None:
    """Keep the numbers of epochs that were forgotten: an event names its epoch by number alone,
    and what is on its way in a forgotten one must never meet other keys.
    """
    tops: dict[tuple[str, str], int] = {}
    for entry in entries:
        place = _epoch_of(entry)
        if place is not None:
            tops[place[:2]] = max(place[2], tops.get(place[:2], 0))
    for (name, group), number in sorted(tops.items()):
        domain = Domain.objects.filter(name=name).first()
        if domain is not None:
            _RESERVE.get(group, _reserve_key)(domain, group, number)


def _epoch_of(entry: Entry) -> tuple[str, str, int] | None:
    """Domain, group and number of the epoch that a key was made for."""
    if entry["op"] == "create_blind_master":
        return entry["domain"], "blind", entry["epoch"]
    if entry["op"] != "create_key":
        return None
    kind, domain, name, number = entry["key_id"].split(":")
    if kind in {"encoding", "tag"}:
        return domain, "encoding", int(number)
    return (domain, f"{kind}:{name}", int(number)) if kind in {"key", "overlay"} else None


def _reserve_encoding(domain: Domain, _group: str, number: int) -> None:
    newest = EncodingEpoch.objects.filter(domain=domain).order_by("-number").first()
    if newest is not None and newest.number < number:
        state = epochs.State.RETIRED
        EncodingEpoch.objects.create(
            domain=domain,
            number=number,
            state=state,
            client_state=state,
            cause=FORGOTTEN,
            parameters=newest.parameters,
        )


def _reserve_blind(domain: Domain, _group: str, number: int) -> None:
    if not BlindEpoch.objects.filter(domain=domain, number__gte=number).exists():
        state = blindepochs.State.RETIRED
        BlindEpoch.objects.create(
            domain=domain, number=number, state=state, client_state=state, cause=FORGOTTEN
        )


def _reserve_key(domain: Domain, group: str, number: int) -> None:
    if not KeyEpoch.objects.filter(domain=domain, group_ref=group, number__gte=number).exists():
        KeyEpoch.objects.create(
            domain=domain,
            group_ref=group,
            number=number,
            state=KeyEpoch.State.RETIRED,
            retired_at=timezone.now(),
            reason=FORGOTTEN,
        )


_RESERVE: Mapping[str, Callable[[Domain, str, int], None]] = {
    "encoding": _reserve_encoding,
    "blind": _reserve_blind,
}


# -- revocations --------------------------------------------------------------------------------


def _count_on(entry: Entry) -> None:
    """Have notices numbered above those that an agent may hold."""
    domain = Domain.objects.filter(name=entry["domain"]).first()
    if domain is not None:
        row = recipient(entry["audience"], domain)
        rows = Recipient.objects.filter(pk=row.pk, notice__lt=entry["number"])
        rows.update(notice=entry["number"])


def _again(entry: Entry) -> bool:
    """Carry a revocation out again that the database does not know; whether it was one."""
    uid, told = str(entry["revocation"]), entry["about"]
    if Revocation.objects.filter(uid=uid).exists():
        return False
    domain = Domain.objects.filter(name=told["of"]).first()
    try:
        target = None if domain is None else _target(domain, told)
        return target is not None and _revoke(uid=uid, target=target)
    except ServiceError as error:
        # It is over already in what was restored, or never was there.
        log.warning("revocation %s is not carried out again: %s", uid, type(error).__name__)
        return False


@audit.change
def _revoke(*, uid: str, target: Target) -> bool:
    if Revocation.objects.filter(uid=uid).exists():
        return False  # somebody else was quicker
    if target.kind == Kind.PRINCIPAL:
        assert target.principal is not None
        starting.revoke_principal(actor=None, principal=target.principal, reason=REASON, uid=uid)
    else:
        starting.revoke(actor=None, target=target, reason=REASON, uid=uid)
    return True


def _target(domain: Domain, told: Mapping[str, str]) -> Target | None:
    """What was revoked, if the restored database has it."""
    principal = Principal.objects.filter(domain=domain, handle=told["handle"]).first()
    agent = Agent.objects.filter(name=told.get("agent", "")).first()
    if principal is not None:
        return _of_principal(principal, told)
    if told["kind"] == Kind.ROLE:
        role = Role.objects.filter(domain=domain, name=told["role"]).first()
        return None if role is None else endings.role(role)
    if told["kind"] == Kind.AGREEMENT:
        row = Agreement.objects.filter(
            provider__name=told["provider"], consumer__name=told["consumer"],
            name=told["agreement"], state=Agreement.State.ACCEPTED,
        ).first()  # fmt: skip
        return None if row is None else endings.agreement(row, told["side"])
    if agent is None:
        return None
    if told["kind"] == Kind.AGENT:
        return endings.agents(agent, [domain])[0]
    group = TrustGroup.objects.filter(domain=domain, name=told.get("trust_group", "")).first()
    return None if group is None else endings.member(group, agent)


def _of_principal(principal: Principal, told: Mapping[str, str]) -> Target | None:
    kind = told["kind"]
    if kind == Kind.APPOINTMENT:
        held = Appointment.objects.filter(principal=principal).active()
        found = (row for row in held if (row.atom or row.name) == told["appointment"])
        row = next(found, None)
        return None if row is None else endings.appointment(row)
    if kind == Kind.HOLDER:
        return endings.holder(principal, told["role"])
    if kind == Kind.ATTRIBUTE:
        return endings.attribute(principal, told["attribute"])
    if kind == Kind.CLIENT_KEY:
        return endings.client_key(principal)
    return endings.principal(principal) if kind == Kind.PRINCIPAL else None
