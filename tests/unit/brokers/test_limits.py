"""How often a publisher may publish: the window, its memory, and what a publisher hears."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters.seen import SeenLog
from brokers.client.errors import TooOften, refusal
from brokers.data.limits import Tally, limit_key
from brokers.ports import SeenEntry, Spend
from policyengine.bundles import RateLimit, Reply
from tests.support.data_plane import Organisation, airport
from tests.support.memory_broker import MemoryBroker
from tests.support.pure_agents import NOW, publication
from tests.support.rate_limits import Rig, answers

FLIGHT: dict[str, Any] = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}
LIMIT = RateLimit("p", 2, 10)


def limited(*limits: tuple[str, int, int]) -> Organisation:
    """The airport's organisation with limits of some policies."""
    organisation = airport()
    found = {name: (count, seconds) for name, count, seconds in limits}
    organisation.policies = tuple(
        replace(each, limit=found.get(each.name)) for each in organisation.policies
    )
    return organisation


ORGANISATION = limited(("airports-publish", 2, 10))


def send(rig: Rig, number: int, at: float) -> Reply:
    """Publish one event at a moment; returns what the publisher hears."""
    name = f"{number:032x}"
    rig.take(publication(rig.organisation, "p-airport", "Flight", FLIGHT, identifier=name), at=at)
    (reply,) = [one for one in answers(rig) if one.request == name]
    return reply


def test_a_publisher_hears_when_there_is_room_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path, MemoryBroker(), ORGANISATION)
    assert [send(rig, number, NOW + number).ok for number in (0, 1)] == [True, True]
    refused = send(rig, 2, NOW + 2.5)
    assert (refused.ok, refused.reason, refused.again) == (False, "too-often", NOW + 10)
    assert "at most 2 events in 10 seconds" in refused.message
    assert "in 8 seconds, from 1970-01-12T13:46:50Z" in refused.message
    assert not send(rig, 3, NOW + 9.9).ok
    assert send(rig, 4, NOW + 10).ok  # the first has just left the window
    refused = send(rig, 5, NOW + 10.5)
    assert (refused.reason, refused.again) == ("too-often", NOW + 11)
    assert "in 1 second," in refused.message


def test_a_refused_event_may_come_again_under_its_own_name(tmp_path: Path) -> None:
    rig = Rig(tmp_path, MemoryBroker(), ORGANISATION)
    for number in (0, 1):
        send(rig, number, NOW)
    assert not send(rig, 2, NOW + 1).ok
    assert send(rig, 2, NOW + 10).ok


def test_limits_are_kept_over_a_restart_and_doubles_do_not_count(tmp_path: Path) -> None:
    broker = MemoryBroker()
    rig = Rig(tmp_path, broker, ORGANISATION)
    send(rig, 0, NOW)
    again = Rig(tmp_path, broker, ORGANISATION)
    assert send(again, 0, NOW + 1).ok  # told again, not counted again
    assert send(again, 1, NOW + 1).ok
    third = Rig(tmp_path, broker, ORGANISATION)
    assert send(third, 2, NOW + 2).again == NOW + 10
    assert send(third, 0, NOW + 2).ok


def test_a_batch_counts_as_it_goes(tmp_path: Path) -> None:
    rig = Rig(tmp_path, MemoryBroker(), ORGANISATION)
    bodies = [
        publication(ORGANISATION, "p-airport", "Flight", FLIGHT, identifier=f"{number:032x}")
        for number in range(5)
    ]
    rig.take(*bodies, at=NOW)
    assert [one.ok for one in answers(rig)] == [True, True, False, False, False]


@pytest.mark.parametrize("place", ["send", "sent", "record", "recorded", "ack", "acked"])
def test_killed_anywhere_an_event_counts_once(tmp_path: Path, place: str) -> None:
    broker = MemoryBroker()
    first = Rig(tmp_path, broker, ORGANISATION, kill_at=place)
    name = "0" * 32
    body = publication(ORGANISATION, "p-airport", "Flight", FLIGHT, identifier=name)
    first.take_and_die(body, at=NOW)
    second = Rig(tmp_path, broker, ORGANISATION)
    second.step(NOW + 1)
    assert send(second, 1, NOW + 2).ok
    refused = send(second, 2, NOW + 3)
    assert refused.reason == "too-often"
    assert NOW + 10 <= refused.again <= NOW + 11


def test_other_publishers_and_other_policies_have_room_of_their_own(tmp_path: Path) -> None:
    organisation = limited(("airports-publish", 1, 60), ("kiosk-publish", 1, 60))
    alpha = Rig(tmp_path / "alpha", MemoryBroker(), organisation)
    assert send(alpha, 0, NOW).ok
    assert not send(alpha, 1, NOW).ok
    beta = Rig(tmp_path / "beta", MemoryBroker(), organisation, name="beta")
    event = {"carrier": "UA", "gate": "A1"}
    for number in (0, 1):
        made = publication(organisation, "p-kiosk", "Departure", event, identifier=f"{number:032x}")
        beta.take(made, at=NOW)
    assert [one.ok for one in answers(beta)] == [True, False]


def test_the_window_slides() -> None:
    tally, key = Tally(), limit_key("flights", "p", LIMIT)
    assert tally.room_from(key, LIMIT) == 0
    tally.add([Spend(key, 100.0, 110.0), Spend(key, 103.0, 113.0)])
    assert tally.room_from(key, LIMIT) == 110
    tally.add([Spend(key, 110.0, 120.0)])
    assert tally.room_from(key, LIMIT) == 113
    # A limit that was changed goes by what is known.
    assert tally.room_from(key, RateLimit("p", 3, 60)) == 160
    assert limit_key("flights", "q", LIMIT) != key != limit_key("other", "p", LIMIT)


def test_what_was_spent_is_pruned_when_it_counts_no_more(tmp_path: Path) -> None:
    log = SeenLog(tmp_path / "seen.sqlite", seconds=3600)
    for number in range(200):
        spend = Spend(b"key", float(number), number + 5.0)
        log.record([SeenEntry(b"%d" % number, number)], now=number, spent=[spend])
    assert log.spent(b"key", 2) == (198.0, 199.0)
    assert len(log.spent(b"key", 1000)) <= 5 + 64
    assert log.spent(b"other", 5) == ()
    log.close()


def test_the_exception_says_when() -> None:
    error = refusal("too-often", "why", NOW + 7)
    assert isinstance(error, TooOften)
    assert (error.reason, error.message, error.again) == ("too-often", "why", NOW + 7)
    assert math.isclose(refusal("too-often", "why").again, 0.0)  # type: ignore[attr-defined]
