"""What was used and what was not: read off counted decision logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import Max, QuerySet, Sum

from adminapp.distribution.models import ActivityDay, ActivityRun
from adminapp.identity.models import Domain
from adminapp.policies.models import Policy

DRAWN_DAYS = 30
_MOST_REASONS = 3


@dataclass(frozen=True)
class Bar:
    """One day of a drawing, in its own units: x from 0, heights up to 100."""

    day: date
    x: int
    passed: int
    refused: int
    passed_height: int
    refused_height: int

    @property
    def passed_top(self) -> int:
        """Where the lower part begins, from above."""
        return 100 - self.passed_height

    @property
    def refused_top(self) -> int:
        """Where the upper part begins, from above."""
        return self.passed_top - self.refused_height


@dataclass(frozen=True)
class Use:
    """How one thing was used since decisions are logged.

    Args:
        logged: whether the domain keeps decision logs at all.
        since: the first day that was counted, or None.
        through: the last one.
        granted: events that passed whole.
        suppressed: events that passed without what the client may not have.
        refused: events that did not.
        last: when something passed last, or None: never since `since`.
        reasons: the commonest reasons of refusals, with their number.
        bars: the last days, for a drawing.
    """

    logged: bool
    since: date | None
    through: date | None
    granted: int = 0
    suppressed: int = 0
    refused: int = 0
    last: datetime | None = None
    reasons: tuple[tuple[str, int], ...] = ()
    bars: tuple[Bar, ...] = field(default=(), repr=False)

    @property
    def passed(self) -> int:
        """Events that passed, whole or not."""
        return self.granted + self.suppressed


@dataclass(frozen=True)
class Ranking:
    """What stands out in all that was counted.

    Args:
        never: policies in force that nothing was let through by, by name.
        refused: (what it is, its name, how it was used), the most refused first.
    """

    never: tuple[str, ...]
    refused: tuple[tuple[str, str, Use], ...]


def ranking(domain: Domain, *, limit: int = 5) -> Ranking:
    """Policies that nobody used, and what was refused most; always in as many queries."""
    policies = list(Policy.objects.filter(domain=domain, enabled=True).order_by("name"))
    subjects = {f"policy-{policy.pk}": policy.name for policy in policies}
    used = _many(domain, ActivityDay.Kind.POLICY, subjects)
    never = [subjects[key] for key, use in used.items() if use.last is None and use.since]
    kinds = (ActivityDay.Kind.TYPE, ActivityDay.Kind.ROLE)
    rows = _days(domain).filter(kind__in=kinds, refused__gt=0).order_by().values("kind", "subject")
    top = rows.annotate(number=Sum("refused")).order_by("-number", "subject")[:limit]
    found = [(row["kind"], row["subject"]) for row in top]
    uses = {
        kind: _many(domain, kind, [name for each, name in found if each == kind]) for kind in kinds
    }
    refused = tuple((kind, name, uses[ActivityDay.Kind(kind)][name]) for kind, name in found)
    return Ranking(tuple(never), refused)


def of_policy(policy: Policy) -> Use:
    """How a policy was used."""
    return _use(policy.domain, ActivityDay.Kind.POLICY, f"policy-{policy.pk}")


def of_domain(domain: Domain) -> Use:
    """How much was decided in all."""
    return _use(domain, ActivityDay.Kind.ALL, "*")


def of_roles(domain: Domain, names: Iterable[str]) -> dict[str, Use]:
    """How roles were used, without drawings."""
    return _many(domain, ActivityDay.Kind.ROLE, names)


def of_subscriptions(domain: Domain, handle: str) -> dict[str, Use]:
    """How a client's subscriptions were used, by the client's own name for each."""
    rows = _days(domain).filter(
        kind=ActivityDay.Kind.SUBSCRIPTION, subject__startswith=f"{handle}/"
    )
    subjects = set(rows.values_list("subject", flat=True))
    found = _many(domain, ActivityDay.Kind.SUBSCRIPTION, sorted(subjects))
    return {subject.partition("/")[2]: use for subject, use in found.items()}


def runs(domain: Domain) -> QuerySet[ActivityRun]:
    """Runs over a domain's logs, newest first."""
    return ActivityRun.objects.filter(domain=domain)


def days(user: Any) -> QuerySet[ActivityDay]:
    """What was counted, of the domains that a user may see, newest first."""
    return ActivityDay.objects.visible_to(user).select_related("domain")


def _days(domain: Domain) -> QuerySet[ActivityDay]:
    return ActivityDay.objects.filter(domain=domain)


def _span(domain: Domain) -> tuple[date | None, date | None]:
    found = _days(domain).order_by("day").values_list("day", flat=True)
    return found.first(), found.last()


def _use(domain: Domain, kind: str, subject: str) -> Use:
    since, through = _span(domain)
    rows = list(_days(domain).filter(kind=kind, subject=subject).order_by("day"))
    reasons: Counter[str] = Counter()
    for row in rows:
        reasons.update(row.reasons)
    last = max((row.last for row in rows), default=0)
    return Use(
        logged=bool(domain.decision_days),
        since=since,
        through=through,
        granted=sum(row.granted for row in rows),
        suppressed=sum(row.suppressed for row in rows),
        refused=sum(row.refused for row in rows),
        last=_moment(last) if last else None,
        reasons=tuple(reasons.most_common(_MOST_REASONS)),
        bars=_bars(rows, through),
    )


def _many(domain: Domain, kind: str, subjects: Iterable[str]) -> dict[str, Use]:
    since, through = _span(domain)
    wanted = list(subjects)
    rows = _days(domain).filter(kind=kind, subject__in=wanted).order_by().values("subject")
    found = {
        row["subject"]: row
        for row in rows.annotate(
            granted=Sum("granted"), suppressed=Sum("suppressed"), refused=Sum("refused"),
            last=Max("last"),
        )
    }  # fmt: skip
    nothing = {"granted": 0, "suppressed": 0, "refused": 0, "last": 0}
    return {
        subject: Use(
            logged=bool(domain.decision_days),
            since=since,
            through=through,
            granted=held["granted"],
            suppressed=held["suppressed"],
            refused=held["refused"],
            last=_moment(held["last"]) if held["last"] else None,
        )
        for subject in wanted
        for held in (found.get(subject, nothing),)
    }


def _bars(rows: list[ActivityDay], through: date | None) -> tuple[Bar, ...]:
    if through is None:
        return ()
    by_day = {row.day: row for row in rows}
    shown = [through - timedelta(days=DRAWN_DAYS - 1 - n) for n in range(DRAWN_DAYS)]
    pairs = [
        (0, 0) if (row := by_day.get(day)) is None
        else (row.granted + row.suppressed, row.refused)
        for day in shown
    ]  # fmt: skip
    top = max(1, *(passed + refused for passed, refused in pairs))
    return tuple(
        Bar(day, x * 10, passed, refused, _height(passed, top), _height(refused, top))
        for x, (day, (passed, refused)) in enumerate(zip(shown, pairs, strict=True))
    )


def _height(number: int, top: int) -> int:
    # What there was at all can be seen.
    return 0 if not number else max(2, round(96 * number / top))


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
