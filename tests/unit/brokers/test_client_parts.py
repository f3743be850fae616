"""The client's pure parts: plans, tags, reassembly, interests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.client import ProfileError, Refused, create_profile
from brokers.client.assembly import Assembly, Event, Interests, Taken
from brokers.client.policy import build_policy
from brokers.client.profile import Profile
from brokers.control.sync import Identity, open_verified
from policyengine.bundles import Delivery
from policyengine.errors import InputError, RejectedError
from tests.support.data_plane import airport
from tests.support.pure_agents import client_policy

FLIGHT: dict[str, Any] = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}
SPLIT = [
    {"overlay": "a", "attributes": ["carrier"]},
    {"overlay": "b", "attributes": ["origin", "tail"]},
]


def test_an_event_without_a_plan_goes_whole_to_the_first_home() -> None:
    (part,) = client_policy(airport(), "p-airport").plan("Flight", FLIGHT)
    assert (part.overlay, part.part, part.parts, part.values) == ("a", 0, 1, FLIGHT)


def test_the_nearest_plan_counts_and_what_no_group_names_travels_in_part_0() -> None:
    policy = client_policy(airport(splits={"Flight": SPLIT}), "p-airport")
    parts = policy.plan("Departure", {**FLIGHT, "gate": "A"})
    assert [(part.overlay, dict(part.values)) for part in parts] == [
        ("a", {"carrier": "UA", "delay": 130, "gate": "A"}),
        ("b", {"origin": "EWR", "tail": "N14228"}),
    ]
    nearer = [{"overlay": "b", "attributes": ["gate"]}]
    policy = client_policy(airport(splits={"Flight": SPLIT, "Departure": nearer}), "p-airport")
    assert [part.overlay for part in policy.plan("Departure", FLIGHT)] == ["b"]
    # An unknown type goes to the first home, whose agent says that it does not exist.
    assert len(policy.plan("Zeppelin", FLIGHT)) == 1


def test_without_a_home_nothing_can_be_published() -> None:
    policy = client_policy(airport(splits={"Flight": SPLIT}), "p-airport")
    only_a = replace(policy, homes={"a": policy.homes["a"]})
    for broken in (only_a, replace(policy, homes={}, splits={})):
        with pytest.raises(Refused) as refused:
            broken.plan("Flight", FLIGHT)
        assert refused.value.reason == "no-home"


def test_tags_differ_by_overlay_and_epoch_and_need_a_current_key() -> None:
    organisation = airport()
    first = client_policy(organisation, "p-airport")
    organisation.epochs = {1: "draining", 2: "current", 3: "staged"}
    second = client_policy(organisation, "p-airport")
    on_a, on_b, later = first.tags("a", FLIGHT), first.tags("b", FLIGHT), second.tags("a", FLIGHT)
    assert (on_a[0], later[0]) == (1, 2)
    assert not set(on_a[1]) & set(on_b[1])
    assert not set(on_a[1]) & set(later[1])
    assert first.tags("a", FLIGHT) == on_a
    assert len(first.tags("a", {**FLIGHT, "delay": 120})[1]) == len(on_a[1]) - 1  # delay > 120
    organisation.epochs = {1: "draining"}
    with pytest.raises(Refused) as refused:
        client_policy(organisation, "p-airport").tags("a", FLIGHT)
    assert refused.value.reason == "not-ready"


def test_an_agents_bundle_is_of_no_use_to_a_client() -> None:
    organisation = airport()
    identity = Identity(
        "agent:alpha",
        organisation.agents["alpha"].keys.sealing,
        organisation.authority.anchors(),
    )
    opened = open_verified(
        organisation.bundle("agent:alpha", 1).message, domain="flights", identity=identity
    )
    with pytest.raises(RejectedError):
        build_policy(opened)


def _delivery(part: int, parts: int, publication: str = "1" * 32, **changes: Any) -> Delivery:
    made: dict[str, Any] = {
        "domain": "flights",
        "publication": publication,
        "type": "Flight",
        "publisher": "p-airport",
        "part": part,
        "parts": parts,
        "agent": "alpha",
        "revision": 1,
        "epoch": 1,
        "attributes": {f"a{part}": part},
        "withheld": {f"w{part}": "no-key"},
    }
    return Delivery(**{**made, **changes})


@given(st.permutations([0, 1, 2]), st.lists(st.integers(0, 2), max_size=6))
@settings(max_examples=100, deadline=None)
def test_parts_come_together_in_any_order_with_any_doubles(
    order: list[int], doubles: list[int]
) -> None:
    handled: set[bytes] = set()
    assembly = Assembly(handled.__contains__)
    wholes = []
    for number, part in enumerate([*doubles, *order]):
        taken = assembly.add(_delivery(part, 3), number, now=0.0)
        assert not taken.double
        if taken.whole:
            wholes.append(taken.whole)
    (whole,) = wholes
    assert whole.event.attributes == {"a0": 0, "a1": 1, "a2": 2}
    assert whole.event.withheld == {"w0": "no-key", "w1": "no-key", "w2": "no-key"}
    # Everything that came is acknowledged with it, doubles included.
    assert sorted(map(int, map(str, whole.carriers))) == list(range(len(doubles) + 3))
    handled.add(whole.key)
    assembly.handled(whole)
    assert assembly.add(_delivery(1, 3), "late", now=0.0).double
    assert assembly.incomplete == 0


def test_a_double_before_the_event_is_handled_is_not_done_with() -> None:
    assembly = Assembly(lambda _: False)
    whole = assembly.add(_delivery(0, 1), "first", now=0.0).whole
    assert whole is not None
    for double in ("second", "third"):
        assert assembly.add(_delivery(0, 1), double, now=0.0) == Taken()
    assert whole.carriers == ["first", "second", "third"]


def test_events_with_a_missing_part_are_given_up() -> None:
    assembly = Assembly(lambda _: False)
    assembly.add(_delivery(0, 2), "x", now=0.0)
    assert assembly.incomplete == 1
    assert assembly.give_up(29.0, 30.0) == []
    assert assembly.give_up(31.0, 30.0) == [("x",)]
    assert assembly.incomplete == 0
    assembly.add(_delivery(0, 2, "2" * 32), "x", now=0.0)
    with pytest.raises(InputError):
        assembly.add(_delivery(1, 3, "2" * 32), "x", now=0.0)


def test_publishers_cannot_take_each_others_identifiers() -> None:
    assembly = Assembly(lambda _: False)
    assert assembly.add(_delivery(0, 1), "x", now=0.0).whole
    assert assembly.add(_delivery(0, 1, publisher="p-other"), "y", now=0.0).whole


def test_interests_follow_types_and_filters() -> None:
    types = client_policy(airport(), "p-ua").types
    event = Event("Departure", "1" * 32, {"carrier": "UA", "delay": 5}, {}, "p-airport")

    def meet(*pairs: tuple[str, str]) -> bool:
        return Interests.build(types, pairs).meet(event)

    assert meet(("Flight", ""))
    assert meet(("Departure", "delay < 6"))
    assert not meet(("Flight", "delay < 5"))
    assert meet(("Flight", "delay < 5"), ("Flight", 'carrier == "UA"'))
    assert not meet(("Zeppelin", ""), ("Flight", "nonsense =="))
    assert not Interests.build(types, [("Flight", "")]).meet(replace(event, type="Zeppelin"))


def test_profiles(tmp_path: Path) -> None:
    (tmp_path / "anchors.json").write_text("{}")
    public = create_profile(
        tmp_path / "p", handle="p-1", domain="flights",
        brokers_file="../brokers.json", anchors_file="../anchors.json",
    )  # fmt: skip
    assert set(public) == {"sealing_key", "verify_key"}
    again = create_profile(
        tmp_path / "p", handle="p-1", domain="flights",
        brokers_file="../brokers.json", anchors_file="../anchors.json",
    )  # fmt: skip
    assert again == public
    with pytest.raises(ProfileError, match=r"brokers\.json"):
        Profile.load(tmp_path / "p")
    with pytest.raises(ProfileError):
        Profile.load(tmp_path / "nothing")
    (tmp_path / "p" / "profile.json").write_text('{"handle": "p-1"}')
    with pytest.raises(ProfileError, match="exactly"):
        Profile.load(tmp_path / "p")
    with pytest.raises(InputError):
        create_profile(tmp_path / "q", handle="A B", domain="d", brokers_file="b", anchors_file="a")
