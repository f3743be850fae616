"""The demo's oracle, on organisations small enough to be worked out by hand."""

from __future__ import annotations

from typing import Any

from tasks.local.clients import Wish
from tasks.local.demo.oracle import Oracle
from tasks.local.samples import SampleEvent

DOCUMENT: dict[str, Any] = {
    "event_types": [
        {
            "name": "Flight",
            "attributes": [
                {"name": "carrier"},
                {"name": "delay"},
                {"name": "tail", "keys": ["airframe"]},
            ],
        },
        {"name": "Departure", "parent": "Flight"},
        {"name": "Weather"},
    ],
    "principals": [
        {"name": "port", "attributes": {"type": "airport"}, "agents": {"a": "alpha", "b": "gamma"}},
        {"name": "UA", "attributes": {"carrier": "UA"}, "agents": {"a": "beta", "b": "gamma"}},
        {"name": "AA", "attributes": {"carrier": "AA"}, "agents": {"a": "alpha"}},
        {
            "name": "office",
            "attributes": {"type": "office"},
            "agents": {"a": "alpha", "b": "gamma"},
        },
    ],
    "trust_groups": [{"name": "g", "members": ["alpha", "beta"], "keys": ["airframe"]}],
    "policies": [
        {
            "name": "publish",
            "action": "publish",
            "event_type": "Flight",
            "expression": 'subject.type == "airport"',
        },
        {
            "name": "own",
            "action": "subscribe",
            "event_type": "Flight",
            "expression": "subject.carrier == event.carrier",
        },
        {
            "name": "late",
            "action": "subscribe",
            "event_type": "Departure",
            "expression": 'subject.type == "office" && event.delay > 120',
            "attributes": ["carrier"],
        },
    ],
}
WISHES = {("d", name): [Wish("Flight")] for name in ("UA", "AA", "office")}


def _event(kind: str = "Departure", publisher: str = "port", **values: Any) -> SampleEvent:
    return SampleEvent("d", publisher, kind, values)


def _oracle(**wishes: list[Wish]) -> Oracle:
    return Oracle({"d": DOCUMENT}, {**WISHES, **{("d", k): v for k, v in wishes.items()}})


def test_policies_decide_who_receives_which_attributes() -> None:
    outcome = _oracle().decide(_event(carrier="UA", delay=130, tail="N1"))
    assert not outcome.refused
    assert outcome.dropped == frozenset()
    assert outcome.received == {
        "UA": {"carrier": "UA", "delay": 130, "tail": "N1"},
        "office": {"carrier": "UA"},
    }


def test_a_policy_on_a_type_holds_below_it_and_not_above() -> None:
    oracle = _oracle()
    assert set(oracle.decide(_event("Flight", carrier="UA", delay=130)).received) == {"UA"}
    assert set(oracle.decide(_event("Departure", carrier="UA", delay=130)).received) == {
        "UA",
        "office",
    }


def test_who_may_not_publish_is_refused() -> None:
    outcome = _oracle().decide(_event(publisher="UA", carrier="UA"))
    assert outcome.refused
    assert outcome.received == {}
    assert _oracle().decide(_event("Weather", carrier="UA")).refused


def test_several_policies_add_up() -> None:
    oracle = _oracle()
    oracle.documents["d"]["policies"].append(
        {
            "name": "delays",
            "action": "subscribe",
            "event_type": "Flight",
            "expression": 'subject.type == "office"',
            "attributes": ["delay"],
        }
    )
    seen = oracle.decide(_event(carrier="UA", delay=130)).received["office"]
    assert seen == {"carrier": "UA", "delay": 130}
    assert oracle.decide(_event(carrier="UA", delay=5)).received["office"] == {"delay": 5}


def test_without_a_key_at_home_a_protected_attribute_stays_away() -> None:
    oracle = _oracle()
    oracle.documents["d"]["trust_groups"][0]["members"] = ["alpha"]
    seen = oracle.decide(_event(carrier="UA", tail="N1")).received["UA"]
    assert seen == {"carrier": "UA"}
    oracle.documents["d"]["trust_groups"][0]["members"] = ["beta"]
    assert oracle.decide(_event(carrier="UA", tail="N1")).dropped == {"tail"}


def test_a_filter_sees_only_what_its_subscriber_may_read() -> None:
    oracle = _oracle(UA=[Wish("Departure", "delay > 10")], office=[Wish("Flight", "delay > 10")])
    assert set(oracle.decide(_event(carrier="UA", delay=130)).received) == {"UA"}
    assert set(oracle.decide(_event(carrier="UA", delay=5)).received) == set()
    assert set(oracle.decide(_event("Flight", carrier="UA", delay=130)).received) == set()


def test_a_revoked_principal_receives_nothing() -> None:
    oracle = _oracle()
    oracle.revoked.add(("d", "UA"))
    assert oracle.decide(_event(carrier="UA", delay=1)).received == {}


def test_parts_reach_only_who_is_at_home_on_their_overlay() -> None:
    oracle = _oracle()
    oracle.split("d", "Flight", [("a", ["carrier", "tail"]), ("b", ["delay"])])
    assert oracle.decide(_event(carrier="UA", delay=1)).received["UA"] == {
        "carrier": "UA",
        "delay": 1,
    }


def test_the_story_s_policies_are_edited_in_a_copy() -> None:
    oracle = _oracle()
    oracle.policy("d", "late")["expression"] = 'subject.type == "office"'
    assert set(oracle.decide(_event(carrier="UA", delay=1)).received) == {"UA", "office"}
    assert DOCUMENT["policies"][2]["expression"].endswith("> 120")
