"""The reassembler: what it refuses, forgets and gives up."""

from __future__ import annotations

import pytest

from policyengine.errors import InputError
from policyengine.privacy import Complete, Reassembler, split


def test_groups_may_not_share_an_attribute() -> None:
    with pytest.raises(InputError) as caught:
        split({"a": 1}, [["a"], ["a"]])
    assert (caught.value.kind, caught.value.where) == ("invalid", "a")


def test_a_window_is_kept() -> None:
    with pytest.raises(InputError):
        Reassembler(0)
    reassembler = Reassembler(1)
    reassembler.add("p1", 0, 2, {"a": 1})
    reassembler.add("p2", 0, 2, {"a": 1})
    assert (len(reassembler), reassembler.missing("p1"), reassembler.missing("p2")) == (1, (), (1,))
    for number in range(2):
        whole = reassembler.add(f"w{number}", 0, 1, {"a": number}, "meta")
        assert whole == Complete(f"w{number}", {"a": number}, ("meta",))
    assert reassembler.add("w1", 0, 1, {"a": 9}) is None
    assert reassembler.add("w0", 0, 1, {"a": 9}) is not None


def test_parts_have_to_fit() -> None:
    reassembler = Reassembler(4)
    for part, parts in [(-1, 1), (1, 1), (0, 257)]:
        with pytest.raises(InputError) as caught:
            reassembler.add("p", part, parts, {})
        assert caught.value.where == "part"
    reassembler.add("p", 0, 2, {})
    with pytest.raises(InputError) as caught:
        reassembler.add("p", 0, 3, {})
    assert caught.value.where == "parts"


def test_waiting_ends() -> None:
    reassembler = Reassembler(4)
    reassembler.add("timed", 0, 2, {}, now=1.0)
    reassembler.add("untimed", 0, 2, {})
    assert reassembler.expire(3.0, max_age=2) == ()
    assert reassembler.expire(4.0, max_age=2) == ("timed",)
    assert reassembler.expire(6.0, max_age=2) == ("untimed",)
    assert len(reassembler) == 0
