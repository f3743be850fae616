"""Plain-English words, tones and icons for what is stored as a code; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from adminapp.policies import access
from adminapp.policies.language import PolicyConjunction
from policyengine.attributes import Literal


@dataclass(frozen=True)
class Term:
    """How a stored value is shown: words, colour (`good`, `warn`, `bad`, `info`, ``), icon."""

    label: str
    tone: str = ""
    icon: str = ""


_ACTIVE = Term("active", "good", "check")
_TERMS: dict[str, dict[str, Term]] = {
    "agent": {
        "current": Term("up to date", "good", "check"),
        "behind": Term("behind", "warn", "clock"),
        "held": Term("waits for its stage", "info", "clock"),
        "silent": Term("silent", "bad", "plug-connected"),
        "waiting": Term("waiting for first contact", "", "circle-dashed"),
        "contradicts": Term("claims what was not built for it", "bad", "alert-circle"),
        "active": _ACTIVE,
        "rejected": Term("refused a bundle", "bad", "circle-x"),
        "banned": Term("banned", "bad", "ban"),
    },
    "rollout": {
        "running": Term("on its way", "info", "loader-2"),
        "stopped": Term("stopped", "bad", "alert-circle"),
        "complete": Term("complete", "good", "checks"),
        "aborted": Term("taken back", "warn", "history"),
        "superseded": Term("replaced by a later change"),
    },
    "standing": {
        "held": Term("waits for its stage", "", "clock"),
        "waiting": Term("not acknowledged yet", "info", "loader-2"),
        "applied": Term("applied", "good", "checks"),
        "rejected": Term("refused it", "bad", "circle-x"),
        "silent": Term("silent", "bad", "plug-connected"),
        "contradicts": Term("claims what was not built for it", "bad", "alert-circle"),
        "skipped": Term("nobody waits for it", "warn", "minus"),
    },
    "span": {
        "applied": Term("in force", "good", "check"),
        "silent": Term("silent: its lease had ended", "bad", "plug-connected"),
        "contradicts": Term("claims what was not built for it", "bad", "alert-circle"),
        "none": Term("holds nothing"),
    },
    "lease": {
        "running": Term("running", "good", "check"),
        "ended": Term("ended", "bad", "clock"),
        "none": Term("none yet"),
    },
    "notice": {
        "built": Term("written", "", "stack-2"),
        "sent": Term("sent", "info", "arrow-right"),
        "applied": Term("confirmed", "good", "checks"),
        "rejected": Term("refused", "bad", "circle-x"),
    },
    "principal": {"active": _ACTIVE, "revoked": Term("revoked", "bad", "ban")},
    "pia": {
        "identifying": Term("identifying", "bad", "fingerprint"),
        "quasi-identifying": Term("quasi-identifying", "warn", "users"),
        "confidential": Term("confidential", "info", "lock"),
        "non-confidential": Term("non-confidential", "good", "check"),
        "": Term("not classified", "", "circle-dashed"),
    },
    "action": {
        "define": Term("may define types", "", "binary-tree"),
        "advertise": Term("may advertise", "", "circle-dashed"),
        "publish": Term("may publish", "info", "arrow-right"),
        "subscribe": Term("may receive", "accent", "mail"),
    },
    "kind": {
        "publisher": Term("publisher"),
        "subscriber": Term("subscriber"),
        "service": Term("service"),
        "person": Term("person"),
    },
    "epoch": {
        "preparing": Term("being prepared", "info", "loader-2"),
        "staged": Term("staged", "info", "stack-2"),
        "current": Term("in force", "good", "check"),
        "draining": Term("running out", "warn", "clock"),
        "retired": Term("retired"),
    },
    "revocation": {
        "noticed": Term("stopping agents", "warn", "clock"),
        "applying": Term("agents take up the policy", "info", "stack-2"),
        "recomputing": Term("recomputing", "info", "loader-2"),
        "staging": Term("staging", "info", "stack-2"),
        "switching": Term("switching", "info", "refresh"),
        "draining": Term("running out", "info", "clock"),
        "complete": Term("complete", "good", "checks"),
        "failed": Term("failed", "bad", "alert-circle"),
    },
    "job": {
        "pending": Term("waiting", "", "clock"),
        "running": Term("running", "info", "loader-2"),
        "done": Term("done", "good", "check"),
        "complete": Term("done", "good", "check"),
        "failed": Term("failed", "bad", "alert-circle"),
        "superseded": Term("overtaken"),
    },
    "bundle": {
        "built": Term("built", "", "stack-2"),
        "sent": Term("sent", "info", "arrow-right"),
        "received": Term("received", "info", "check"),
        "applied": Term("applied", "good", "checks"),
        "rejected": Term("rejected", "bad", "circle-x"),
        "superseded": Term("superseded"),
    },
    "membership": {
        "operator": Term("operator", "accent", "shield-check"),
        "manager": Term("manager", "info", "edit"),
        "auditor": Term("auditor", "", "eye"),
    },
    "change-set": {
        "draft": Term("draft", "", "edit"),
        "submitted": Term("waits for approval", "warn", "clock"),
        "applied": Term("applied", "good", "checks"),
        "rejected": Term("rejected", "bad", "ban"),
        "withdrawn": Term("withdrawn", "", "x"),
    },
    "enrolment": {
        "pending": Term("waits for you", "warn", "clock"),
        "confirmed": Term("takes part", "good", "check"),
        "refused": Term("refused", "bad", "ban"),
        "expired": Term("nobody decided", "", "clock"),
        "replaced": Term("enrolled anew", "", "refresh"),
    },
    "import": {
        "waiting": Term("waits", "", "clock"),
        "checking": Term("being checked", "info", "loader-2"),
        "writing": Term("being written", "info", "loader-2"),
        "done": Term("done", "good", "checks"),
        "refused": Term("refused", "bad", "circle-x"),
        "cancelled": Term("stopped", "warn", "x"),
        "failed": Term("failed", "bad", "alert-circle"),
    },
    "risk": {
        "holds": Term("holds", "info", "check"),
        "soon": Term("ends soon", "warn", "clock"),
        "over": Term("over", "bad", "alert-circle"),
    },
    "form": {
        "whole": Term("everything"),
        "delta": Term("what changed"),
    },
    "agreement": {
        "proposed": Term("proposed", "info", "mail"),
        "countered": Term("other terms proposed", "info", "mail"),
        "accepted": Term("agreed on", "good", "checks"),
        "withdrawn": Term("withdrawn", "warn", "ban"),
        "rejected": Term("refused", "warn", "circle-x"),
        "lapsed": Term("over: its time has ended"),
    },
    "side": {
        "provider": Term("side that opens its events"),
        "consumer": Term("side that is let in"),
    },
    "opened": {"subscribe": Term("receive"), "publish": Term("publish")},
    "fleet": {
        "open": Term("lets agents in", "info", "check"),
        "full": Term("has all of its agents", "good", "checks"),
        "over": Term("over"),
    },
    "doubt": {
        "unlogged": Term("a domain kept no decisions when it was revoked"),
        "expired": Term("decisions of then are not kept any more"),
        "unrecorded": Term("it was revoked before what a revocation takes away was kept"),
        "more": Term("more ended than is held against logs one by one"),
        "unclear": Term("something passed that the log does not tell from what is still allowed"),
        "distrusted": Term("the agent is distrusted, so its own word is no evidence"),
        "silent": Term("nothing is known of an agent"),
        "short": Term("an agent's log does not reach beyond that moment yet"),
        "holes": Term("a time is missing in an agent's log"),
        "lost": Term("decisions found no room on an agent's disk"),
    },
    "enabled": {"yes": Term("in force", "good", "check"), "no": Term("switched off", "", "minus")},
}


def term(kind: str, value: str) -> Term:
    """How `value` of the vocabulary `kind` is shown; an unknown value is shown as it is."""
    return _TERMS.get(kind, {}).get(value, Term(value or "unknown"))


def duration(seconds: float) -> str:
    """A length of time, coarse enough to read at a glance."""
    if seconds < 1:
        return f"{round(max(seconds, 0) * 1000)} ms"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def ago(seconds: float) -> str:
    """How long ago; what lies ahead is told as such."""
    if seconds < -1:
        return f"in {duration(-seconds)}"
    return "just now" if seconds < 2 else f"{duration(seconds)} ago"


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 agent`, `3 agents`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listing(items: list[str], *, limit: int = 6) -> str:
    """`a, b and 3 more`."""
    if len(items) <= limit:
        return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
    return f"{', '.join(items[:limit])} and {len(items) - limit} more"


def action(code: str) -> str:
    """An audit action as words: `policy.updated` -> `policy updated`."""
    return code.replace(".", " ").replace("-", " ").replace("_", " ")


_REVOCATION_EVENTS = {
    "revoked": Term("T0: revoked; stop notices are on their way", "info", "user-off"),
    "notice-applied": Term("{agent} stopped serving it", "good", "bolt"),
    "applying": Term("The new policy goes to the agents", "info", "stack-2"),
    "recomputing": Term("New keys; every encoding is to be computed anew", "info", "loader-2"),
    "recomputed": Term("Every encoding is computed anew", "good", "check"),
    "recompute-failed": Term("The computation failed", "bad", "alert-circle"),
    "staging": Term("The new epoch goes to every agent", "info", "stack-2"),
    "agent-staged": Term("{agent} holds the new epoch", "good", "check"),
    "switching": Term("Agents switch to the new epoch", "info", "refresh"),
    "agent-switched": Term("{agent} uses the new epoch", "good", "check"),
    "draining": Term("Publishers switch; what is on its way runs out", "info", "clock"),
    "retiring": Term("The old epoch is taken away", "info", "trash"),
    "agent-retired": Term("{agent} dropped the old epoch", "good", "check"),
    "agent-skipped": Term("{agent} was not reached; it serves nothing", "bad", "plug-connected"),
    "complete": Term("Done; the receipt is signed", "good", "checks"),
}


_WITHOUT_SWITCH = {
    "recomputing": Term("The encodings of those concerned are to be replaced", "info", "loader-2"),
    "recomputed": Term("They are replaced", "good", "check"),
    "staging": Term("The change goes to the agents", "info", "stack-2"),
    "agent-staged": Term("{agent} holds the change", "good", "check"),
}


def revocation_event(kind: str, agent: str = "", *, switching: bool = True) -> Term:
    """What a recorded event of a revocation means; unknown kinds are shown as they are.

    Args:
        switching: whether new keys or a new epoch came with it.
    """
    known = _REVOCATION_EVENTS.get(kind)
    if not switching:
        known = _WITHOUT_SWITCH.get(kind, known)
    if known is None:
        return Term(action(kind).capitalize(), "info", "check")
    return Term(known.label.format(agent=agent or "an agent"), known.tone, known.icon)


_REASONS = {
    "audience": "it was meant for somebody else",
    "signature": "its signature does not hold",
    "malformed": "it cannot be read",
    "rollback": "it is older than what the agent holds",
    "replay": "the agent holds this revision already",
    "expired": "it had expired",
    "previous": "it does not follow what the agent holds",
}


def reason(code: str) -> str:
    """Why an agent refused something."""
    return _REASONS.get(code, code or "none given")


def type_in_words(declared: dict[str, Any]) -> str:
    """A declared attribute type: `a whole number from 0 to 1,023`."""
    kind = declared.get("type", "")
    if kind == "enum":
        return f"one of {', '.join(declared.get('values', ()))}"
    if kind == "bool":
        return "yes or no"
    words = {"string": "a text", "int": "a whole number", "float": "a number"}.get(kind, kind)
    low, high, step = (declared.get(name) for name in ("min", "max", "step"))
    if low is not None and high is not None:
        words += f" from {_number(low)} to {_number(high)}"
    elif low is not None:
        words += f" of at least {_number(low)}"
    elif high is not None:
        words += f" of at most {_number(high)}"
    return f"{words} in steps of {_number(step)}" if step is not None else words


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"


_WORD = re.compile(r"[\w.]+|\"[^\"]*\"?|'[^']*'?|[^\w\s]+")


def place(text: str, position: int | None) -> tuple[int, int]:
    """Begin and end of what stands at a position of a text, so that it can be marked.

    Returns:
        Two positions; the last character where the text has ended already, and an empty range
        when there is no position at all.
    """
    if position is None:
        return len(text), len(text)
    at = min(max(position, 0), len(text))
    found = _WORD.match(text, at)
    if found:
        return at, found.end()
    return (max(len(text.rstrip()) - 1, 0), len(text)) if at >= len(text.rstrip()) else (at, at + 1)


def conjunction(found: PolicyConjunction) -> dict[str, list[str]]:
    """One way to satisfy a policy: what must hold of who, of what, when, and between them."""
    return {
        "subject": [_literal(literal) for literal in found.subject],
        "event": [_literal(literal) for literal in found.event],
        "environment": [_literal(literal) for literal in found.environment],
        "joins": [
            f"{join.left} is the same as {join.right}" for join in (*found.joins, *found.ties)
        ],
    }


def _literal(literal: Literal) -> str:
    name = literal.attribute
    if name.startswith("subject.role.") and literal.op in {"==", "!="}:
        holds = (literal.op == "==") == bool(literal.value)
        return f"role {'is' if holds else 'is not'} {name.removeprefix('subject.role.')}"
    if name.startswith("subject.role.") and literal.op == "!has":
        return f"role is not {name.removeprefix('subject.role.')}"
    return access.describe([literal]).removeprefix("where ")


def role_rule(prerequisites: list[str], appointments: list[str], constraints: list[str]) -> str:
    """One way to get a role, in words."""
    parts = []
    if appointments:
        parts.append(f"appointed {listing(list(appointments), limit=20)}")
    if prerequisites:
        parts.append(f"has role {listing(list(prerequisites), limit=20)}")
    if constraints:
        parts.append(f"while {' and '.join(constraints)}")
    return "; ".join(parts) or "always"


@dataclass(frozen=True)
class AccessRow:
    """Access that is the same for several event types, in one line.

    Args:
        principal, action, attributes, condition, policies: as in `access.Access`.
        types: the event types.
    """

    principal: str
    action: str
    types: tuple[str, ...]
    attributes: tuple[str, ...]
    condition: str
    policies: tuple[str, ...]


def access_rows(lines: Iterable[access.Access]) -> list[AccessRow]:
    """Lines of access, those put together that differ in the event type alone."""
    types: dict[tuple[Any, ...], list[str]] = {}
    for line in lines:
        same = (line.principal, line.action, line.attributes, line.condition, line.policies)
        types.setdefault(same, []).append(line.type)
    return [
        AccessRow(who, action, tuple(names), attributes, condition.removeprefix("where "), by)
        for (who, action, attributes, condition, by), names in types.items()
    ]
