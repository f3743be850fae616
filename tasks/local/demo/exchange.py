"""Publish events, and compare what everybody received with what the oracle says."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokers.client import Event, Refused
from tasks.local.demo.oracle import Outcome
from tasks.local.demo.report import Step
from tasks.local.demo.world import World
from tasks.local.samples import SampleEvent

ARRIVAL_SECONDS = 45.0
QUIET_SECONDS = 1.5
_SHOWN = 5


@dataclass(frozen=True)
class Sent:
    """An event with its publication's identifier and what must become of it."""

    event: SampleEvent
    publication: str
    outcome: Outcome


def exchange(
    step: Step,
    world: World,
    what: str,
    events: Sequence[SampleEvent],
    *,
    during: Callable[[], None] | None = None,
) -> None:
    """Publish `events` and check refusals, deliveries and attributes against the oracle.

    `during` is called after half of them are sent, before any answer was waited for.
    """
    sent = send(step, world, what, events, during=during)
    compare(step, world, what, sent)


def send(
    step: Step,
    world: World,
    what: str,
    events: Sequence[SampleEvent],
    *,
    during: Callable[[], None] | None = None,
) -> list[Sent]:
    """Publish without waiting, then wait for every answer and check it."""
    sent, handles = [], []
    for position, event in enumerate(events):
        if during is not None and position == len(events) // 2:
            during()
        outcome = world.oracle.decide(event)
        publisher = world.clients.publishers[event.domain, event.publisher]
        handle = publisher.publish_nowait(event.type, event.values, timeout=30.0)
        handles.append(handle)
        sent.append(Sent(event, handle.id, outcome))
    wrong = [
        text
        for one, handle in zip(sent, handles, strict=True)
        if (text := _answer(one, handle.wait)) is not None
    ]
    step.equal(f"{what}: {len(sent)} events, answered as they must be", wrong[:_SHOWN], [])
    return sent


def _answer(sent: Sent, wait: Callable[[float], Any]) -> str | None:
    try:
        published = wait(60.0)
    except Refused as refusal:
        expected = sent.outcome.refused and refusal.reason == "not-authorised"
        return None if expected else f"{sent.event}: refused, {refusal}"
    if sent.outcome.refused:
        return f"{sent.event}: accepted"
    if set(published.dropped) != sent.outcome.dropped:
        return f"{sent.event}: dropped {published.dropped}"
    return None


def compare(step: Step, world: World, what: str, sent: Sequence[Sent]) -> None:
    """Wait for the deliveries, then a while for what must not come, and check all of it."""
    expected = _expected(sent)
    total = sum(map(len, expected.values()))
    own = {one.publication for one in sent}
    _await(lambda: _count(world, own), total)
    time.sleep(QUIET_SECONDS)
    seen = _seen(world, sent[0].event.domain, own) if sent else {}
    step.equal(
        f"{what}: events received",
        {name: len(found) for name, found in sorted(seen.items())},
        {name: len(found) for name, found in sorted(expected.items())},
    )
    differences = _differences(expected, seen)
    step.equal(f"{what}: every attribute of each, none twice", differences[:_SHOWN], [])


def _expected(sent: Sequence[Sent]) -> dict[str, dict[str, Mapping[str, Any]]]:
    expected: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for one in sent:
        for name, attributes in one.outcome.received.items():
            expected[name][one.publication] = attributes
    return dict(expected)


def _seen(world: World, domain: str, own: set[str]) -> dict[str, list[Event]]:
    seen = {}
    for (place, name), inbox in world.clients.inboxes.items():
        found = [event for event in inbox.events if event.publication in own]
        if found and place == domain:
            seen[name] = found
        elif found:
            seen[f"{place}/{name}"] = found
    return seen


def _count(world: World, own: set[str]) -> int:
    inboxes = world.clients.inboxes.values()
    return sum(event.publication in own for inbox in inboxes for event in inbox.events)


def _await(count: Callable[[], int], total: int) -> None:
    end = time.monotonic() + ARRIVAL_SECONDS
    while count() < total and time.monotonic() < end:
        time.sleep(0.1)


def _differences(
    expected: Mapping[str, Mapping[str, Mapping[str, Any]]], seen: Mapping[str, Sequence[Event]]
) -> list[str]:
    found = []
    for name in sorted({*expected, *seen}):
        wanted, got = expected.get(name, {}), seen.get(name, ())
        times = Counter(event.publication for event in got)
        found += [f"{name}: {one} came {n} times" for one, n in times.items() if n > 1]
        found += [f"{name}: {one} is missing" for one in wanted if one not in times]
        for event in got:
            if event.publication not in wanted:
                found.append(f"{name}: must not see {event.type} {dict(event.attributes)}")
            elif dict(event.attributes) != dict(wanted[event.publication]):
                found.append(
                    f"{name}: sees {dict(event.attributes)}, must see {wanted[event.publication]}"
                )
    return found
