"""Who may: rules that an event meets, and what they grant to one client.

An event is matched only in the epoch it names, never across two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bitarray import bitarray

from brokers.data.reasons import EPOCH_RETIRED, EPOCH_UNKNOWN, POLICY_ENDED
from brokers.snapshot import DomainSnapshot, EpochPolicy, Rule
from policyengine.errors import RejectedError

ACCEPTED = frozenset({"current", "draining"})


@dataclass(frozen=True)
class Grant:
    """What a client may do with an event.

    Args:
        attributes: names it may read or write, or None for all.
        suppresses: names whose place is kept where it may not.
        policies: names of the policies that together say so, sorted.
    """

    attributes: frozenset[str] | None
    suppresses: frozenset[str] = frozenset()
    policies: tuple[str, ...] = ()

    def permits(self, name: str) -> bool:
        """Whether the attribute is among them."""
        return self.attributes is None or name in self.attributes


def named_epoch(snapshot: DomainSnapshot, epoch: int) -> EpochPolicy:
    """The epoch in which an event is to be matched.

    Args:
        snapshot: the domain's policy in force.
        epoch: number that the event names.

    Raises:
        RejectedError: `epoch-unknown`, where the agent does not match in it yet, or
            `epoch-retired`, where it does no more.
    """
    held = snapshot.epochs.get(epoch)
    if held is not None and held.state in ACCEPTED:
        return held
    if held is not None or epoch > snapshot.newest_epoch:
        raise RejectedError(EPOCH_UNKNOWN, f"encoding epoch {epoch} is not in force here yet")
    raise RejectedError(EPOCH_RETIRED, f"encoding epoch {epoch} is over")


def matched_rules(
    policy: EpochPolicy,
    action: str,
    event_type: str,
    tags: frozenset[bytes],
    proofs: frozenset[bytes] | None = None,
) -> list[Rule]:
    """The rules of an action that an event meets by its type, its tags and its values.

    Args:
        policy: the epoch that the event names.
        action: `publish`, `lower` or `subscribe`.
        event_type: the event's own type; rules of its ancestors are found too.
        tags: routing tags of the event, 16 bytes each.
        proofs: what its values prove (`EpochPolicy.proofs`); None takes the tags' word.
    """
    found = policy.index(action, event_type).matching(tags)
    return found if proofs is None else [rule for rule in found if rule.proof <= proofs]


def check_ended(
    rules: Iterable[Rule], policy: EpochPolicy, *, now: float, handle: str | None = None
) -> None:
    """Let nothing be decided by a rule that has ended: the next policy is on its way.

    Args:
        rules: the rules that the event meets.
        policy: the epoch they belong to.
        now: Unix time in seconds, by the lease's signed time.
        handle: the client that it is about; None where it is about all.

    Raises:
        RejectedError: `policy-ended`, where one of them authorises such a client.
    """
    position = None if handle is None else policy.positions.get(handle)
    if handle is not None and position is None:
        return
    for rule in rules:
        concerns = rule.authorised.any() if position is None else rule.authorised[position]
        if concerns and not rule.holds(now):
            raise RejectedError(POLICY_ENDED, "what the policy said has ended; the next awaits")


def authorised(rules: Sequence[Rule], policy: EpochPolicy) -> bitarray:
    """Whom any of some rules authorises: bit i is set for client i of the epoch.

    Args:
        rules: the rules that the event meets.
        policy: the epoch they belong to.
    """
    found = bitarray(len(policy.positions))
    found.setall(0)
    for rule in rules:
        found |= rule.authorised
    return found


def grant(rules: Iterable[Rule], policy: EpochPolicy, handle: str) -> Grant | None:
    """What the rules together permit a client, or None where none authorises it.

    Several rules add up; one without a list of attributes permits all.

    Args:
        rules: the rules that the event meets.
        policy: the epoch they belong to.
        handle: the client.
    """
    position = policy.positions.get(handle)
    if position is None:
        return None
    authorising = [rule for rule in rules if rule.authorised[position]]
    if not authorising:
        return None
    suppresses = frozenset[str]().union(*(rule.suppresses for rule in authorising))
    policies = tuple(sorted({rule.policy for rule in authorising}))
    if any(rule.attributes is None for rule in authorising):
        return Grant(None, suppresses, policies)
    permitted = frozenset[str]().union(*(rule.attributes or () for rule in authorising))
    return Grant(permitted, suppresses, policies)
