"""What is pointed out about a policy: one finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "conflict",
    "grants-nobody",
    "incomplete",
    "no-audience",
    "no-source",
    "redundant",
    "unfit",
    "unreachable",
    "wider",
]
Severity: TypeAlias = Literal["warning", "notice", "unknown"]

KINDS: tuple[str, ...] = (
    "conflict",
    "grants-nobody",
    "incomplete",
    "no-audience",
    "no-source",
    "redundant",
    "unfit",
    "unreachable",
    "wider",
)
SEVERITIES: tuple[str, ...] = ("warning", "notice", "unknown")


@dataclass(frozen=True, order=True)
class Finding:
    """Something about a policy that its author hardly meant; the policy works all the same.

    Args:
        kind: what was found. `conflict`: another policy, or another rule, says the opposite;
            `grants-nobody`: nobody meets it now; `no-audience`, `no-source`: nobody receives what
            it lets be published, nobody publishes what it lets be received; `redundant`: another
            policy says as much; `unfit`: an inherited policy that does not fit what the domain
            overrides; `unreachable`: a part that can never be met, or adds nothing; `wider`: it
            permits what no policy of the domain above does; `incomplete`: not everything was
            looked at.
        severity: `warning`, `notice`, or `unknown` where it cannot be told.
        policy: its name.
        message: for a person.
        related: names of other policies that it has to do with.
    """

    kind: Kind
    severity: Severity
    policy: str
    message: str
    related: tuple[str, ...] = ()
