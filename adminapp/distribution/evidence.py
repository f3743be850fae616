"""Revocations held against what agents logged: the check of every receipt.

INVARIANT: what is missing in the logs is told as unknown with its reason, never as "none".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from django.db.models import Sum
from django.utils import timezone

from adminapp.distribution import decisionlogs, rights
from adminapp.distribution.decisionlogs import Coverage
from adminapp.distribution.endings import Kind
from adminapp.distribution.models import (
    DecisionSegment,
    Recipient,
    Revocation,
    RevocationCheck,
    RevokedRight,
)
from adminapp.identity.models import Agent, Domain

Row: TypeAlias = tuple[str, str, str, int, int, int, list[dict[str, Any]]]

FOREVER: Final = 2**63 - 1
VERDICTS: Final = ("none", "broken", "unknown", "waiting", "nothing", "off")
REASONS: Final = (
    "unlogged", "expired", "unrecorded", "more", "unclear", "distrusted", "silent", "short",
    "holes", "lost",
)  # fmt: skip
_TOLD: Final = frozenset({"none", "broken"})
_NUMBERS: Final = ("decisions", "within", "after", "unclear", "early", "refused")
_OF_DOMAINS: Final = {
    RevokedRight.State.UNLOGGED: "unlogged",
    RevokedRight.State.EXPIRED: "expired",
}
_ACTIONS: Final = {"subscribe": "deliver", "publish": "publish", "": ""}
_WHOLE: Final = frozenset({Kind.PRINCIPAL, Kind.CLIENT_KEY, Kind.AGENT, Kind.MEMBER})


@dataclass(frozen=True)
class AgentCoverage:
    """What is known of one agent's decisions in a domain since a revocation.

    Args:
        through: until when something is known, or None.
        missing_seconds: of the time until then, what nothing is known of.
        lost: decisions that found no room on its disk.
        reasons: why nothing certain can be said of it; none where all is known.
    """

    domain: str
    agent: str
    through: datetime | None
    missing_seconds: float
    lost: int
    reasons: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether nothing is missing until then."""
        return self.through is not None and self.missing_seconds == 0 and self.lost == 0


@dataclass(frozen=True)
class ReceiptCheck:
    """A revocation held against what agents logged.

    Args:
        verdict: `broken` (something passed by what was revoked after the guarantee's moment),
            `unknown` (nothing was found, but something is missing), `none` (nothing, and nothing
            is missing), `waiting` (nothing was counted yet), `off` (no logs are kept), or
            `nothing` (it took away nothing that agents decide about).
        reasons: why it is unknown, see `REASONS`.
        until: from when on nothing may pass by what was revoked.
        through: until when every agent's decisions are known, or None.
        decisions: how many were looked at.
        within: what still passed by what was revoked before `until`.
        after: what passed later; there must be none.
        unclear: what passed later, and the log does not tell by what was revoked or by the rest.
        early: what passed later by other rights, under a revision that was out of use.
        refused: what was refused where something was lost.
        contradicting: the agents of what passed after.
        agents: of each agent what is known.
        settled: when this was found, where the logs have left since; None is now.
    """

    verdict: str
    reasons: tuple[str, ...]
    until: datetime
    through: datetime | None
    decisions: int
    within: int
    after: int
    unclear: int
    early: int
    refused: int
    contradicting: tuple[str, ...]
    agents: tuple[AgentCoverage, ...]
    settled: datetime | None = None


class Logs:
    """What is known of agents' decisions, by domain; each is read once."""

    def __init__(self, since: datetime) -> None:
        self._since = _ms(since)
        self._known: dict[int, list[Coverage]] = {}
        self._banned = frozenset(
            Agent.objects.filter(state=Agent.State.BANNED).values_list("name", flat=True)
        )
        self._lying: dict[int, frozenset[str]] = {}
        self.began = dict(
            Agent.objects.filter(registered_at__gt=since).values_list("name", "registered_at")
        )

    def of(self, domain: Domain) -> list[Coverage]:
        """What is known of each agent that serves a domain, or that logged."""
        if domain.pk not in self._known:
            self._known[domain.pk] = decisionlogs.coverage(domain, self._since)
        return self._known[domain.pk]

    def distrusted(self, domain: Domain) -> frozenset[str]:
        """Agents whose word is no evidence: banned ones, and those that said what cannot be."""
        if domain.pk not in self._lying:
            rows = Recipient.objects.filter(domain=domain, state=Recipient.State.CONTRADICTS)
            addresses = rows.values_list("audience", flat=True)
            self._lying[domain.pk] = frozenset(each.partition(":")[2] for each in addresses)
        return self._banned | self._lying[domain.pk]


def check(revocation: Revocation, logs: Logs | None = None) -> ReceiptCheck:
    """Hold a revocation against the logs.

    Args:
        logs: what is known of agents since then, where several are held against it.
    """
    held = list(revocation.rights.select_related("domain"))
    known = logs or Logs(revocation.created)
    agents = tuple(_agents(revocation, held, known))
    numbers, contradicting = _numbers(revocation)
    lease = timedelta(seconds=revocation.domain.lease_seconds)
    until = max((row.until for row in held), default=revocation.created + lease)
    through = [each.through for each in agents if each.through is not None]
    reasons = _reasons(revocation, held, numbers["unclear"], agents)
    found = ReceiptCheck(
        verdict=_verdict(revocation, held, reasons, numbers["after"]),
        reasons=tuple(reason for reason in REASONS if reason in reasons),
        until=until,
        through=min(through) if through and len(through) == len(agents) else None,
        contradicting=contradicting,
        agents=agents,
        **numbers,
    )
    return _as_settled(revocation, found)


def settle(domain: Domain) -> None:
    """Keep what is found of the domain's revocations: logs leave, and what they said stays."""
    found = Revocation.objects.filter(rights__in=rights.watched(domain)).distinct()
    rows = list(found.select_related("domain"))
    if not rows:
        return
    logs = Logs(min(row.created for row in rows))
    for row in rows:
        now = check(row, logs)
        Revocation.objects.filter(pk=row.pk).update(
            held_against={
                "verdict": now.verdict,
                "reasons": list(now.reasons),
                "through": now.through.isoformat() if now.through else None,
                "at": timezone.now().isoformat(),
            }
        )


def table(domain: Domain) -> Iterator[Row]:
    """What logs of the domain are held against: the columns of `spark.schemas.REVOKED`."""
    found: dict[tuple[str, str, str], tuple[int, int, int, list[dict[str, Any]]]] = {}
    for row in rights.watched(domain).filter(more=False).select_related("revocation"):
        revocation = row.revocation
        floor = 0 if revocation.kind in _WHOLE else row.floor
        for name in row.names:
            place = (revocation.uid, row.party, name)
            entry = found.setdefault(place, (_ms(revocation.created), _ms(row.until), floor, []))
            before = int(row.again.get(name, FOREVER))
            entry[3].append(
                {
                    "action": _ACTIONS[row.action],
                    "type": row.type,
                    "policy": row.policy,
                    # From that revision on the policy itself gives no more than what is left.
                    "before": min(before, row.floor) if row.partly else before,
                    "partly": row.partly,
                }
            )
    for place, entry in found.items():
        yield (*place, *entry)


# -- the answer ---------------------------------------------------------------------------------


def _numbers(revocation: Revocation) -> tuple[dict[str, int], tuple[str, ...]]:
    sums = revocation.checks.aggregate(**{name: Sum(name) for name in _NUMBERS})
    broken = revocation.checks.filter(after__gt=0).values_list("contradicting", flat=True)
    names = {name for listed in broken for name in listed}
    return {name: value or 0 for name, value in sums.items()}, tuple(sorted(names))


def _verdict(
    revocation: Revocation, held: list[RevokedRight], reasons: set[str], after: int
) -> str:
    if after:
        return "broken"
    if not held:
        return "unknown" if reasons else "nothing"
    watched = [row.domain_id for row in held if row.state == RevokedRight.State.WATCHED]
    if not watched:
        return "off" if reasons <= {"unlogged"} else "unknown"
    counted = DecisionSegment.objects.filter(
        domain__in=watched, state=DecisionSegment.State.COUNTED, end__gt=_ms(revocation.created)
    )
    if not counted.exists():
        return "waiting"
    return "unknown" if reasons else "none"


def _reasons(
    revocation: Revocation,
    held: Iterable[RevokedRight],
    unclear: int,
    agents: Iterable[AgentCoverage],
) -> set[str]:
    found = {reason for each in agents for reason in each.reasons}
    rows = list(held)
    found |= {str(row.state) for row in rows if row.state in _OF_DOMAINS}
    if not rows and _took_something(revocation):
        found.add("unrecorded")
    if any(row.more for row in rows):
        found.add("more")
    if unclear:
        found.add("unclear")
    return found


def _took_something(revocation: Revocation) -> bool:
    """Whether it ended what agents decide about; those of releases before are believed to have."""
    return revocation.kind in _WHOLE or revocation.before.get("rights", 1) > 0


def _agents(
    revocation: Revocation, held: Iterable[RevokedRight], logs: Logs
) -> Iterator[AgentCoverage]:
    """Those that could have let something through, in each domain whose logs are looked at."""
    by_domain: dict[Domain, list[RevokedRight]] = {}
    for row in held:
        if row.state == RevokedRight.State.WATCHED:
            by_domain.setdefault(row.domain, []).append(row)
    since = _ms(revocation.created)
    for domain, rows in by_domain.items():
        known = {one.agent: one for one in logs.of(domain)}
        own = {name for row in rows if row.party == RevokedRight.Party.AGENT for name in row.names}
        told = revocation.notices.filter(domain=domain).values_list("audience", flat=True)
        served = {name for name, one in known.items() if one.serves or one.through > since}
        names = own or served | {each.partition(":")[2] for each in told}
        until = max(_ms(row.until) for row in rows)
        for name in sorted(names):
            one = known.get(name, Coverage(name, (), 0))
            begin = max(since, _ms(logs.began[name])) if name in logs.began else since
            yield _agent(domain, one, begin, until, distrusted=name in logs.distrusted(domain))


def _agent(
    domain: Domain, one: Coverage, begin: int, until: int, *, distrusted: bool
) -> AgentCoverage:
    silent = one.through <= begin
    missing = sum(last - first for first, last in one.missing(begin, max(begin, one.through)))
    lost = one.lost_since(begin)
    reasons = {
        "distrusted": distrusted,
        "silent": silent,
        "short": not silent and one.through <= until,
        "holes": missing > 0,
        "lost": lost > 0,
    }
    through = None if silent else datetime.fromtimestamp(one.through / 1000, UTC)
    told = tuple(name for name, true in reasons.items() if true)
    return AgentCoverage(domain.name, one.agent, through, missing / 1000, lost, told)


def _as_settled(revocation: Revocation, found: ReceiptCheck) -> ReceiptCheck:
    """What was found while the logs were there, where they have left since."""
    kept = revocation.held_against
    if found.verdict == "broken" or not kept or "expired" not in found.reasons:
        return found
    through = kept["through"]
    return ReceiptCheck(
        **{
            **vars(found),
            "verdict": kept["verdict"],
            "reasons": tuple(kept["reasons"]),
            "through": datetime.fromisoformat(through) if through else None,
            "settled": datetime.fromisoformat(kept["at"]),
        }
    )


def unverified(before: datetime) -> int:
    """How many revocations whose guarantee passed before a moment logs could not speak for yet.

    Of a revoked agent only its own log would tell, so that one is not waited for.
    """
    rows = Revocation.objects.filter(
        rights__state=RevokedRight.State.WATCHED, rights__until__lt=before
    ).exclude(kind=Kind.AGENT)
    found = dict(rows.values_list("pk", "held_against"))
    return sum(held.get("verdict") not in _TOLD for held in found.values())


def contradicted() -> int:
    """How many revocations logs speak against."""
    return RevocationCheck.objects.filter(after__gt=0).values("revocation").distinct().count()


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
