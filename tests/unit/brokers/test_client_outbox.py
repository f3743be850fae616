"""What a client keeps on its disk: durable, bounded, in order, and unreadable without its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from brokers.client.aside import Aside
from brokers.client.assembly import Event, Whole
from brokers.client.dispatch import plan_parcel
from brokers.client.errors import BufferFull, NotAuthorised, ProfileError
from brokers.client.outbox import Outbox
from brokers.client.vault import Vault
from policyengine.primitives.hpke import generate_sealing_key
from tests.support.data_plane import airport
from tests.support.pure_agents import client_policy

FLIGHT: dict[str, Any] = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}
KEY = generate_sealing_key()

Open = Callable[..., Outbox]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens the outbox; one that was open before is left as a killed process leaves it."""
    made: list[Outbox] = []

    def open_it(**limits: int) -> Outbox:
        made.append(Outbox(tmp_path / "outbox.sqlite", Vault(KEY), **limits))
        return made[-1]

    yield open_it
    for one in made:
        one.close()


def put(outbox: Outbox, *names: str) -> None:
    for name in names:
        outbox.put(name, "flights", "Flight", {**FLIGHT, "origin": name})


def test_events_are_there_again_in_their_order(opened: Open) -> None:
    put(opened(), "b", "a", "c")
    again = opened()
    assert len(again) == 3
    found = again.after(0, 10)
    assert [one.id for one in found] == ["b", "a", "c"]
    assert found[0].values == {**FLIGHT, "origin": "b"}
    assert [one.id for one in again.after(found[0].seq, 1)] == ["a"]
    again.settle(["a"])
    assert [one.id for one in opened().after(0, 10)] == ["b", "c"]


def test_a_full_outbox_takes_no_more_and_loses_nothing(opened: Open) -> None:
    outbox = opened(max_events=2)
    put(outbox, "a", "b")
    with pytest.raises(BufferFull):
        put(outbox, "c")
    outbox.settle(["a"])
    put(outbox, "c")
    assert [one.id for one in outbox.after(0, 10)] == ["b", "c"]
    small = opened(max_bytes=100)
    with pytest.raises(BufferFull):
        put(small, "d")
    assert len(opened()) == 2


def test_a_split_that_was_begun_is_kept(opened: Open) -> None:
    outbox = opened()
    put(outbox, "a")
    (kept,) = outbox.after(0, 1)
    assert kept.parcel() is None
    split = [
        {"overlay": "a", "attributes": ["carrier", "delay"]},
        {"overlay": "b", "attributes": ["origin", "tail"]},
    ]
    policy = client_policy(airport(splits={"Flight": split}), "p-airport")
    parcel = plan_parcel(policy, kept.id, kept.type, kept.values)
    outbox.keep_plan(kept, parcel)
    (again,) = opened().after(0, 1)
    assert again.parcel() == parcel


def test_refused_events_stand_with_their_reason(opened: Open) -> None:
    outbox = opened()
    put(outbox, "a", "b")
    outbox.settle(["b"], [("a", "not-authorised", "no policy permits it"), ("x", "gone", "gone")])
    assert len(outbox) == 0
    (refused,) = opened().refused()
    assert (refused.id, refused.values, refused.reason) == (
        "a", {**FLIGHT, "origin": "a"}, "not-authorised",
    )  # fmt: skip
    assert type(refused.error) is NotAuthorised
    outbox.forget_refused("a")
    assert opened().refused() == []


def test_the_disk_shows_nothing_of_events(opened: Open, tmp_path: Path) -> None:
    outbox = opened()
    put(outbox, "a")
    outbox.settle([], [("a", "secret-reason", "secret words")])
    put(outbox, "b")
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for word in (b"N14228", b"Flight", b"carrier", b"secret-reason", b"secret words"):
        assert word not in written
    assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.glob("*.sqlite"))
    other = Outbox(tmp_path / "outbox.sqlite", Vault(generate_sealing_key()))
    with closing(other), pytest.raises(ProfileError, match="of other keys"):
        other.after(0, 1)


# what could not be handled


def whole(name: str = "a") -> Whole:
    return Whole(Event("Flight", name, FLIGHT, {"gate": "no-key"}, "p-1", "flights"), b"k", [])


def test_attempts_are_counted_over_restarts(tmp_path: Path) -> None:
    for expected in (1, 2, 3):
        with closing(Aside(tmp_path / "aside.sqlite", Vault(KEY))) as aside:
            assert aside.begun(whole()) == expected
    with closing(Aside(tmp_path / "aside.sqlite", Vault(KEY))) as aside:
        aside.finished(whole())
        assert aside.begun(whole()) == 1


def test_what_is_put_aside_is_there_with_its_reason(tmp_path: Path) -> None:
    with closing(Aside(tmp_path / "aside.sqlite", Vault(KEY))) as aside:
        aside.begun(whole())
        aside.put(whole(), "ValueError: no", 5, 1000.0)
        assert aside.begun(whole()) == 1
        written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"ValueError" not in written
        assert b"N14228" not in written
    with closing(Aside(tmp_path / "aside.sqlite", Vault(KEY))) as aside:
        (kept,) = aside.all()
        assert kept.event == whole().event
        assert (kept.error, kept.attempts, kept.at) == ("ValueError: no", 5, 1000.0)
        aside.forget("a")
        assert aside.all() == []
