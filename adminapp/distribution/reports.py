"""What audiences say that they hold; taken only from messages whose signature was checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Case, F, Min, Q, Value, When
from django.utils import timezone

from adminapp.audit import selectors as audit_selectors
from adminapp.audit import services as audit
from adminapp.distribution import delivery, history
from adminapp.distribution.models import Bundle, Recipient
from adminapp.distribution.recipients import recipient
from adminapp.identity.models import Domain

State = Recipient.State
STRAY = "bundle.refused"
CONTRADICTED = "acknowledgement.contradicted"
STRAY_PAUSE = timedelta(minutes=1)
_NOTHING: Final[Mapping[str, Any]] = {"revision": 0, "digest": "", "notice": 0, "epochs": {}}


@dataclass(frozen=True)
class Report:
    """What an audience says of itself, in a message whose signature was checked.

    Args:
        address: who.
        domains: the domains that it may speak of, by name.
        held: what it says that it holds of each.
        at: when it said so, by its own clock, in seconds since 1970.
        reads: forms of bundles that it can read; None where the message does not speak of it.
        root: version of the root that it trusts; None where the message does not speak of it.
    """

    address: str
    domains: Mapping[str, Domain]
    held: Mapping[str, Mapping[str, Any]]
    at: int
    reads: Sequence[str] | None = None
    root: int | None = None


@dataclass(frozen=True)
class _Statement:
    """A report's part about one domain, beside the row that keeps what was said before."""

    row: Recipient
    held: Mapping[str, Any]
    at: int
    said: Mapping[str, Any]

    @property
    def repeats(self) -> bool:
        """Whether it says what is known; most do, one every few seconds of each agent."""
        row, held = self.row, self.held
        epochs = {str(number): state for number, state in held["epochs"].items()}
        return (
            # What could not be believed is looked at again: it may have been built since.
            row.state == _state(row, held, believed=True)
            and (row.revision, row.digest) == (held["revision"], held["digest"])
            and (row.revision > 0 or not row.digest)
            and (row.notice, row.epochs) == (held["notice"], epochs)
            and (row.state == State.REJECTED or not row.reason)
            and all(getattr(row, name) == value for name, value in self.said.items())
            # Rows of earlier releases lack what their bundle's keys are.
            and (bool(row.keys) or not row.audience.startswith("agent:"))
        )


def record_held(reports: Iterable[Report]) -> None:
    """Keep what audiences say that they hold, where they did not say so before."""
    known, fresh = _sorted(_statements(reports))
    built = history.built((each.row, each.held) for each in fresh)
    believed = [*known, *(each for each in fresh if _store(each, built))]
    unsettled = _unsettled(believed)
    for each in believed:
        oldest = unsettled.get((each.row.audience, each.row.domain_id))
        if oldest is not None and oldest <= each.held["revision"]:
            _settle(each.row, each.held)


def _statements(reports: Iterable[Report]) -> list[_Statement]:
    """Without those that are older than the last one: they were replayed, or overtaken."""
    listed = list(reports)
    domains = {domain.pk for report in listed for domain in report.domains.values()}
    known = Recipient.objects.filter(
        audience__in={report.address for report in listed}, domain__in=domains
    )
    rows = {(row.audience, row.domain_id): row for row in known}
    found = []
    for report in listed:
        for name, domain in report.domains.items():
            row = rows.get((report.address, domain.pk)) or recipient(report.address, domain)
            row.domain = domain
            if report.at < row.reported_at:
                continue
            said = {
                "reads": row.reads if report.reads is None else [*report.reads],
                "root_version": row.root_version if report.root is None else report.root,
            }
            found.append(_Statement(row, report.held.get(name) or _NOTHING, report.at, said))
    return found


def _sorted(told: Iterable[_Statement]) -> tuple[list[_Statement], list[_Statement]]:
    """Those that say what is known, of which it is noted that they were seen, and the others."""
    known, fresh, alike = [], [], defaultdict(list)
    for each in told:
        if each.repeats:
            alike[each.at, each.row.reported_at].append(each)
        else:
            fresh.append(each)
    for (at, before), group in alike.items():
        # What was read above must still be so: another process may take messages in as well.
        rows = {each.row.pk for each in group}
        same = Recipient.objects.filter(pk__in=rows, reported_at=before)
        seen = same.update(last_seen=timezone.now(), reported_at=at)
        (known if seen == len(rows) else fresh).extend(group)
    return known, fresh


def _unsettled(told: Iterable[_Statement]) -> dict[tuple[str, int], int]:
    """The oldest revision that each of them has not acknowledged."""
    rows = {(each.row.audience, each.row.domain_id) for each in told}
    found = Bundle.objects.filter(
        audience__in={audience for audience, _ in rows},
        domain__in={domain for _, domain in rows},
        state__in=delivery.UNACKNOWLEDGED,
    )
    oldest = found.order_by().values("audience", "domain_id").annotate(first=Min("revision"))
    return {(row["audience"], row["domain_id"]): row["first"] for row in oldest}


def _store(told: _Statement, built: history.Built) -> bool:
    """Keep it; whether it can be believed."""
    row, held = told.row, told.held
    believed = history.proven(row, held, built)
    said = {**told.said, "keys": history.keys_of(row, held, built) if believed else {}}
    news = _write(row, held, told.at, said, believed=believed)
    if news and not believed:
        # Outside of that transaction: the audit's end is taken before any other row.
        _note_contradiction(row=row, held=held)
    return believed


def _write(
    row: Recipient, held: Mapping[str, Any], at: int, said: Mapping[str, Any], *, believed: bool
) -> bool:
    """Keep what it says; whether that is another revision than before.

    `said` are columns that hold what it says beside that.
    """
    state = _state(row, held, believed=believed)
    columns = {
        "notice": held["notice"],
        "epochs": held["epochs"],
        **said,
        "state": state,
        "reason": row.reason if state == State.REJECTED else "",
        "last_seen": timezone.now(),
        "reported_at": at,
    }
    place = {"revision": held["revision"], "digest": held["digest"]}
    mine = Recipient.objects.filter(pk=row.pk, reported_at__lte=at)
    # Who holds nothing has lost its disk: it is helped at once.
    if believed and held["revision"]:
        mine = mine.exclude(_overtaken(held, at))
    # What was read decides what is tried first, what is there which of the two it is.
    known = (row.revision, row.digest) == (held["revision"], held["digest"])
    if known and mine.filter(**place).update(**columns):
        return False
    with transaction.atomic():
        news = mine.exclude(**place).update(**place, **columns)
        if news:
            history.note(row, held, believed=believed)
    if not news and not known:
        mine.filter(**place).update(**columns)
    return bool(news)


def _overtaken(held: Mapping[str, Any], at: int) -> Q:
    """Who said of the same second that it holds something newer: this was said before that.

    Two processes take messages in, and the second is all that tells the order of two of them.
    """
    newer = Q(revision__gt=held["revision"]) | Q(notice__gt=held["notice"])
    return Q(newer, reported_at=at) & ~Q(state=State.CONTRADICTS)


def _settle(row: Recipient, held: Mapping[str, Any]) -> None:
    """What is in force, or older than that, needs no further sending."""
    same = Q(digest=held["digest"])
    Bundle.objects.filter(
        audience=row.audience,
        domain=row.domain_id,
        revision__lte=held["revision"],
        state__in=delivery.UNACKNOWLEDGED,
    ).update(
        state=Case(
            When(same, then=Value(Bundle.State.APPLIED.value)),
            default=Value(Bundle.State.SUPERSEDED.value),
        ),
        # By our own clock, as every other moment of it.
        acknowledged_at=Case(When(same, then=Value(timezone.now())), default=F("acknowledged_at")),
    )


def _state(row: Recipient, held: Mapping[str, Any], *, believed: bool) -> str:
    if not believed:
        return State.CONTRADICTS
    behind = held["revision"] < row.domain.revision
    if row.state == State.REJECTED and behind:
        return State.REJECTED
    return State.BEHIND if behind else State.APPLIED


@audit.change
def _note_contradiction(*, row: Recipient, held: Mapping[str, Any]) -> None:
    """It signed that it holds what was never built for it.

    It lies, somebody has its key, or this database was restored from before; one entry a minute.
    """
    minute = timezone.now() - STRAY_PAUSE
    if audit_selectors.search(action=CONTRADICTED, object_id=row.audience, since=minute).exists():
        return
    kind, _, name = row.audience.partition(":")
    audit.write(
        actor=None,
        action=CONTRADICTED,
        domain_name=row.domain.name,
        object_type=kind,
        object_id=row.audience,
        object_name=name,
        after={"revision": held["revision"], "digest": held["digest"]},
    )
