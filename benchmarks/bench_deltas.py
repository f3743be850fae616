"""What an agent is sent after a change: deltas against wholes, in bytes and in time.

One agent with 100, 1,000 and 10,000 clients, each with an encoding in the current epoch; token
encodings of three conjunctions, 64 rules. The changes are those of every day: a policy's rules,
a subject's attributes, a client revoked, a client new, and a step of an encoding epoch. The
baseline is the whole bundle of the same revision. Both are sealed and signed, as they are sent.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.aims import Aim, summary
from benchmarks.tables import human, seconds, table, times
from policyengine.bundles import (
    AgentContent,
    AgentRef,
    ClientRef,
    EncodedRule,
    EncodedSubject,
    EpochContent,
    SealedBundle,
    Wrap,
    build_bundle,
    difference,
)
from policyengine.bundles.deltas import apply, difference_from
from policyengine.bundles.entries import take_apart
from policyengine.bundles.limits import MAX_CHUNK
from policyengine.primitives.hpke import generate_sealing_key
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import generate_signing_key, sign

ENCODING = 8 * 16
RULES = 64
AGENT = generate_sealing_key()
AUTHORITY = generate_signing_key()
DIGEST = "0" * 64


def main(argv: Sequence[str]) -> list[Aim]:
    """Measure and print; returns the aims."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args(argv).quick
    aims: list[Aim] = []
    for count in (100, 1_000) if quick else (100, 1_000, 10_000):
        content = organisation(count)
        outline = take_apart(content).outline
        rows: list[list[str]] = []
        for name, change in CHANGES.items():
            after = change(content)
            whole = _whole(after)
            delta = _delta(outline, after)
            if apply(content, difference(content, after)) != after:
                raise AssertionError("a delta led somewhere else")
            share = whole.size / delta.size
            made = (
                seconds(partial(_whole, after), repeat=1),
                seconds(partial(_delta, outline, after), repeat=1),
            )
            rows.append(
                [
                    name,
                    f"{whole.size:,}",
                    f"{delta.size:,}",
                    times(share),
                    human(made[0]),
                    human(made[1]),
                    human(seconds(partial(_carried_out, content, after), repeat=1)),
                ]
            )
            if count == 1_000 and name != "an epoch's step":
                aims.append(Aim(f"bytes of a delta: {name}, 1,000 subjects", "whole", 10.0, share))
        columns = ["change", "whole", "delta", "smaller", "make whole", "make delta", "apply"]
        table(f"{count:,} subjects at one agent, bytes and time", columns, rows)
    return aims


def organisation(count: int) -> AgentContent:
    """What an agent with so many clients holds."""
    token = SYSTEM_RANDOM.token
    handles = [f"p-{number:016x}" for number in range(count)]
    return AgentContent(
        domain="bench",
        agent="alpha",
        overlay="a",
        lease_seconds=30,
        types=({"name": "Reading", "parent": None, "attributes": []},),
        agents=(AgentRef("alpha", "a", token(32), token(32)),),
        clients=tuple(ClientRef(handle, token(32), token(32)) for handle in handles),
        epochs=(_epoch(1, handles),),
        wraps=tuple(Wrap(f"key:k{number}", 1, token(81), "current") for number in range(20)),
        notices_through=0,
    )


def _epoch(number: int, handles: Sequence[str]) -> EpochContent:
    token = SYSTEM_RANDOM.token
    return EpochContent(
        epoch=number,
        state="current" if number == 1 else "staged",
        parameters={"encoding": "tokens", "n": 8},
        rules=tuple(_rule(f"r{number}-{each}") for each in range(RULES)),
        subjects=tuple(
            EncodedSubject(handle, tuple(token(ENCODING) for _ in range(3))) for handle in handles
        ),
    )


def _rule(name: str) -> EncodedRule:
    token = SYSTEM_RANDOM.token
    return EncodedRule(
        name, "policy-1", "subscribe", "Reading", (token(16),), token(ENCODING), None
    )


def _policy(content: AgentContent) -> AgentContent:
    (epoch,) = content.epochs
    rules = (*epoch.rules[:10], *(_rule(f"new-{each}") for each in range(3)), *epoch.rules[12:])
    return replace(content, epochs=(replace(epoch, rules=rules),))


def _subject(content: AgentContent) -> AgentContent:
    (epoch,) = content.epochs
    fresh = tuple(SYSTEM_RANDOM.token(ENCODING) for _ in range(3))
    changed = replace(epoch.subjects[7], encoded=fresh)
    subjects = (*epoch.subjects[:7], changed, *epoch.subjects[8:])
    return replace(content, epochs=(replace(epoch, subjects=subjects),))


def _revoked(content: AgentContent) -> AgentContent:
    (epoch,) = content.epochs
    return replace(
        content,
        clients=content.clients[1:],
        epochs=(replace(epoch, subjects=epoch.subjects[1:]),),
        notices_through=content.notices_through + 1,
    )


def _new(content: AgentContent) -> AgentContent:
    (epoch,) = content.epochs
    token = SYSTEM_RANDOM.token
    client = ClientRef("p-new", token(32), token(32))
    subject = EncodedSubject("p-new", (token(ENCODING),))
    return replace(
        content,
        clients=(*content.clients, client),
        epochs=(replace(epoch, subjects=(*epoch.subjects, subject)),),
    )


def _staged(content: AgentContent) -> AgentContent:
    handles = [client.handle for client in content.clients]
    return replace(content, epochs=(*content.epochs, _epoch(2, handles)))


CHANGES: dict[str, Callable[[AgentContent], AgentContent]] = {
    "a policy's rules": _policy,
    "a subject's attributes": _subject,
    "a client revoked": _revoked,
    "a client new": _new,
    "an epoch's step": _staged,
}


def _whole(content: AgentContent) -> SealedBundle:
    """As it was sent always: everything, signed and sealed."""
    return build_bundle(**_members(content, ""))


def _delta(outline: bytes, content: AgentContent) -> SealedBundle:
    """What changed since an outline, signed and sealed."""
    delta = difference_from(outline, take_apart(content))
    return build_bundle(**_members(content, DIGEST), delta=delta)


def _carried_out(before: AgentContent, after: AgentContent) -> AgentContent:
    return apply(before, difference(before, after))  # type: ignore[return-value]


def _members(content: AgentContent, previous: str) -> dict[str, object]:
    return {
        "domain": "bench",
        "audience": "agent:alpha",
        "revision": 2,
        "previous": previous,
        "issued": 1,
        "expires": 2,
        "root_version": 1,
        "content": content,
        "sign": partial(sign, AUTHORITY),
        "recipient": AGENT.public,
        "chunk": MAX_CHUNK,
    }


if __name__ == "__main__":
    summary(main(sys.argv[1:]))
