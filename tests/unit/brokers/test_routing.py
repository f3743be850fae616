"""Routing between agents: who is told what, who is sent what, and what happens when not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokers.agent.policy import InForce, PolicyInForce, Progress
from brokers.agent.routing import OverlayRouting
from brokers.control.routing import LIFE, REFRESH, Held, Routes
from brokers.data.interests import MOST_FILTERS, HeldInterest, Reducer, written
from brokers.data.subscriptions import Subscription, SubscriptionIndex
from brokers.ports import Outgoing
from brokers.simulation.disk import MemorySubscriptions
from policyengine.bundles import (
    Announcement,
    Interest,
    hop_queue,
    open_announcement,
    rendezvous,
    seal_announcement,
    seal_taken,
)
from policyengine.bundles.interests import Taken, hop_kind
from policyengine.errors import DecodeError
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.support.overlay import (
    AGENTS,
    TYPES,
    Clock,
    MemoryRouting,
    Overlay,
    organisation,
    snapshot,
)

NOW = 1_000_000.0
EVENT = {"level": 3, "secret": 5}


def wanted(*asked: tuple[str, str], agent: str = "a0"):
    """What an agent makes of the subscriptions of one client."""
    made = [
        Subscription("world", f"sub-{agent}", f"s{n}", kind, text)
        for n, (kind, text) in enumerate(asked)
    ]
    return Reducer().wanted(snapshot(agent), made)


def announcement(agent: str = "a1", **changes) -> Announcement:
    members = {
        "domain": "world", "overlay": "o", "agent": agent, "to": "a0", "number": 1,
        "issued": int(NOW), "expires": int(NOW) + LIFE, "scope": tuple(TYPES), "interests": (),
        "asks": False,
    }  # fmt: skip
    return Announcement(**{**members, **changes})


# what is told


def test_only_what_nothing_else_covers_is_told() -> None:
    assert [one.to_json() for one in wanted(("Sport", "level > 2"), ("Sport", "level > 4"))] == [
        {"type": "Sport", "filters": [{"expression": "level > 2", "keys": []}]}
    ]
    merged = wanted(("Sport", "level <= 4"), ("Sport", "level >= 4 && level < 8"))
    assert len(merged) == 1
    assert [one.type for one in wanted(("News", ""), ("Tennis", "level == 1"))] == ["News"]
    assert [one.type for one in wanted(("News", ""), ("Weather", ""))] == ["News", "Weather"]
    below = wanted(("News", "level > 2"), ("Tennis", "level > 4"), ("Sport", "level > 1"))
    assert [
        (one.type, [each["expression"] for each in one.to_json()["filters"]]) for one in below
    ] == [("News", ["level > 2"]), ("Sport", ["level > 1"])]


def test_beyond_so_many_filters_the_whole_type_is_told() -> None:
    many = [("Sport", f"level != {n}" + " && level != 9" * (n // 10)) for n in range(40)]
    assert len({text for _, text in many}) > MOST_FILTERS
    assert [one.to_json() for one in wanted(*many)] == [{"type": "Sport", "filters": []}]


def test_subscriptions_of_clients_that_are_not_here_are_not_told() -> None:
    elsewhere = Subscription("world", "sub-a1", "s", "News", "")
    unknown = Subscription("world", "sub-a0", "s", "Zeppelin", "")
    assert Reducer().wanted(snapshot("a0"), [elsewhere, unknown]) == ()


def test_conditions_on_protected_attributes_travel_under_their_keys_or_not_at_all() -> None:
    asked = ("News", "level == 1 && secret == 7")
    (interest,) = written(snapshot("a0"), wanted(asked), random=SYSTEM_RANDOM)
    assert sorted(one.expression for one in interest.filters) == ["", "level == 1"]
    assert [set(one.sealed) for one in interest.filters if one.sealed] == [{"secret-key"}]
    (without,) = written(snapshot("a4"), wanted(asked, agent="a4"), random=SYSTEM_RANDOM)
    assert [one.expression for one in without.filters] == ["level == 1"]
    told = announcement(agent="a0", interests=(interest,))
    for agent, value, may in (("a1", 7, True), ("a1", 8, False), ("a4", 8, True)):
        held = HeldInterest.read(snapshot(agent), told)
        known = {"level": 1, "secret": value}
        assert held.may_want("Tennis", lambda known=known: known, whole=True) is may
        assert held.may_want("Tennis", lambda: {"level": 2}, whole=False)
        assert not held.may_want("Tennis", lambda: {"level": 2}, whole=True)
        assert not held.may_want("Weather", dict, whole=True)
        narrow = HeldInterest.read(snapshot(agent), replace(told, scope=("News",)))
        assert narrow.may_want("Weather", dict, whole=True)


def test_who_wants_a_type_that_is_not_known_here_may_want_everything() -> None:
    told = announcement(interests=(Interest("Zeppelin", ()),))
    assert HeldInterest.read(snapshot("a0"), told).may_want("Weather", dict, whole=True)


# the state


def test_numbers_never_go_back_and_announcements_end() -> None:
    routes = Routes("a0", "world")
    assert routes.hear(announcement(number=5))
    assert not routes.hear(announcement(number=5, asks=True))
    assert not routes.hear(announcement(number=4))
    assert routes.interest("a1", NOW + LIFE - 1) is not None
    assert routes.interest("a1", NOW + LIFE) is None
    assert routes.hear(announcement(number=6))
    again = Routes("a0", "world")
    again.restore(routes.to_json())
    assert again.interest("a1", NOW) == announcement(number=6)
    assert not again.hear(announcement(number=6))
    again.doubt("a1")
    assert again.interest("a1", NOW) is None
    assert not again.hear(announcement(number=6))  # the number is kept
    assert again.next_number(NOW) == 1_000_000_000
    assert again.next_number(NOW - 50) == 1_000_000_001


@pytest.mark.parametrize(
    "junk",
    [
        None,
        {},
        {"number": "1", "numbers": {}, "heard": []},
        {"number": 1, "numbers": {"a": "1"}, "heard": []},
        {"number": 1, "numbers": {}, "heard": [{}]},
    ],
)
def test_a_damaged_state_is_refused(junk) -> None:
    with pytest.raises(DecodeError):
        Routes("a0", "world").restore(junk)


def test_others_are_told_what_changed_what_ends_and_what_they_ask_for() -> None:
    routes = Routes("a0", "world")
    contents = {"a1": "one", "a2": "two"}
    assert routes.due(contents, NOW) == ("a1", "a2")
    for name, content in contents.items():
        routes.told(name, content, NOW)
    assert routes.due(contents, NOW) == ()
    assert routes.due({**contents, "a2": "three"}, NOW) == ("a2",)
    assert routes.due(contents, NOW + REFRESH) == ("a1", "a2")
    assert routes.due(contents, NOW - 1) == ("a1", "a2")
    assert routes.asks("a1", NOW)
    routes.hear(announcement(asks=True))
    assert not routes.asks("a1", NOW)
    assert routes.due(contents, NOW) == ("a1",)
    routes.told("a1", "one", NOW)
    routes.doubt("a1")  # asked again, but not at every turn
    assert routes.due(contents, NOW + 1) == ()
    assert routes.due(contents, NOW + 40) == ("a1",)


def test_agents_that_carry_nothing_tell_each_other_nothing() -> None:
    """Of one type two agents are carriers: the others speak to them, and they to everybody."""
    carriers = set(rendezvous("world", "Weather", AGENTS))
    assert len(carriers) == 2
    told: dict[str, set[str]] = {}
    for name in AGENTS:
        one = replace(snapshot(name), specs={"Weather": snapshot(name).specs["Weather"]})
        keys = organisation().agents[name].keys
        policy = PolicyInForce(
            agent=name, overlay="o", sealing_key=keys.sealing,
            subscription_file=MemorySubscriptions(lambda _: None), progress=Progress(),
        )  # fmt: skip
        policy.commit("world", InForce(one, SubscriptionIndex.build(one, ())))
        clock = Clock()
        routing = OverlayRouting(
            agent=name, keys=keys, policy=policy, now=clock.wall, clock=clock,
            store=MemoryRouting(),
        )  # fmt: skip
        outgoing, _ = routing.announcements(["world"])
        told[name] = {message.queue.split(".")[2] for message in outgoing}
    for name in AGENTS:
        assert told[name] == (set(AGENTS) if name in carriers else carriers) - {name}


def test_a_silent_rendezvous_agent_is_passed_by_until_it_is_heard() -> None:
    kind = next(n for n in TYPES if "a0" not in rendezvous("world", n, AGENTS))
    first, second = rendezvous("world", kind, AGENTS)
    routes = Routes("a0", "world", patience=10.0)
    assert routes.carrier(kind, AGENTS, NOW) == ""
    routes.hear(announcement(second))
    assert routes.carrier(kind, AGENTS, NOW) == second
    routes.hear(announcement(first))
    assert routes.carrier(kind, AGENTS, NOW) == first
    routes.hold(Held(b"k", kind, b"hop", first, 100.0))
    routes.hold(Held(b"l", kind, b"hop", first, 109.0))
    assert routes.overdue(109.0) == ()
    assert [held.key for held in routes.overdue(110.0)] == [b"k", b"l"]
    assert routes.carrier(kind, AGENTS, NOW) == second
    routes.confirm(first, b"k")
    assert routes.waiting == 1
    assert routes.carrier(kind, AGENTS, NOW) == first
    routes.release(b"l")
    assert routes.waiting == 0
    assert not routes.room(2**30)


# agents together


@pytest.fixture
def overlay() -> Overlay:
    made = Overlay()
    made.settle()
    return made


def carriers(kind: str) -> tuple[str, ...]:
    return rendezvous("world", kind, AGENTS)


def home(kind: str) -> str:
    """An agent that carries nothing of the type."""
    return next(name for name in AGENTS if name not in carriers(kind))


def count(overlay: Overlay, what: str) -> int:
    return sum(each.statistics.counters("world").get(what, 0) for each in overlay.agents.values())


def test_an_event_goes_by_its_rendezvous_agent_to_those_who_want_it(overlay: Overlay) -> None:
    publisher = home("Tennis")
    other = next(n for n in AGENTS if n not in {*carriers("Tennis"), publisher})
    overlay.request(f"sub-{other}", "subscribe", "Sport", "level == 3")
    overlay.pump()
    before = dict(overlay.events_to)
    event = overlay.publish(publisher, "Tennis", EVENT)
    overlay.publish(publisher, "Tennis", {"level": 4})
    overlay.pump()
    sent = {name: overlay.events_to[name] - before[name] for name in AGENTS}
    assert sent == {name: {carriers("Tennis")[0]: 2, other: 1}.get(name, 0) for name in AGENTS}
    assert overlay.delivered() == {f"sub-{other}": [event]}
    assert (count(overlay, "distributed"), count(overlay, "saved")) == (2, 5)
    assert count(overlay, "rerouted") == 0


def test_what_a_silent_rendezvous_agent_was_given_goes_another_way(overlay: Overlay) -> None:
    first, second = carriers("Weather")
    publisher = home("Weather")
    overlay.request(f"sub-{publisher}", "subscribe", "Weather")
    other = next(n for n in AGENTS if n not in {first, second, publisher})
    overlay.request(f"sub-{other}", "subscribe", "Weather")
    overlay.pump()
    overlay.agents[first].stop()
    events = [overlay.publish(publisher, "Weather", {})]
    overlay.pump()
    assert f"sub-{other}" not in overlay.delivered()
    overlay.clock.time += 11.0
    overlay.pump()
    assert overlay.delivered()[f"sub-{other}"] == events
    events.append(overlay.publish(publisher, "Weather", {}))  # passed by at once now
    overlay.pump()
    assert overlay.delivered()[f"sub-{other}"] == events
    overlay.agents[second].stop()
    events.append(overlay.publish(publisher, "Weather", {}))
    overlay.pump()
    overlay.clock.time += 11.0
    overlay.pump()
    assert overlay.delivered()[f"sub-{other}"] == events  # to everybody, without any of them
    overlay.settle()
    assert overlay.delivered()[f"sub-{other}"] == events
    assert count(overlay, "rerouted") == 2


def test_what_a_rendezvous_agent_drops_of_a_revoked_publisher_is_told_apart(
    overlay: Overlay,
) -> None:
    publisher, carrier = home("Tennis"), carriers("Tennis")[0]
    other = next(n for n in AGENTS if n not in {*carriers("Tennis"), publisher})
    overlay.request(f"sub-{other}", "subscribe", "Tennis")
    overlay.pump()
    overlay.agents[carrier].policy.deny("world", frozenset({f"pub-{publisher}"}))
    event = overlay.publish(publisher, "Tennis", EVENT)
    overlay.pump()
    assert overlay.delivered() == {}
    (told,) = overlay.agents[carrier].statistics.last_refusals()
    named = (told["kind"], told["reason"], told["publication"])
    assert named == ("carried", "revoked", event)


def test_what_is_wanted_survives_a_restart_of_the_rendezvous_agent(overlay: Overlay) -> None:
    first, publisher = carriers("Weather")[0], home("Weather")
    for forgets, reached in ((False, 0), (True, 1)):
        overlay.settle()
        before = dict(overlay.events_to)
        overlay.publish(publisher, "Weather", {})
        overlay.pump(publisher)
        agent = overlay.agents[first]
        agent.stop()
        if forgets:
            agent.store.kept = {}
        agent.start()
        overlay.pump(first)
        others = [n for n in AGENTS if n not in {first, publisher}]
        sent = [overlay.events_to[name] - before[name] for name in others]
        # Without knowledge everybody may want it: messages more, no event less.
        assert sent == [reached] * len(others)


def test_who_cannot_read_a_filter_forwards(overlay: Overlay) -> None:
    held = [n for n in TYPES if set(carriers(n)[:1]) <= set(AGENTS[:3]) and n != "Weather"]
    unheld = [n for n in TYPES if carriers(n)[0] in AGENTS[3:] and n != "Weather"]
    assert len(held) + len(unheld) == 3
    overlay.request("sub-a0", "subscribe", "News", "secret == 1")
    overlay.pump()
    for kind in held + unheld:
        before = overlay.events_to["a0"]
        overlay.publish("a1", kind, EVENT)
        overlay.pump()
        if carriers(kind)[0] != "a0":
            assert overlay.events_to["a0"] - before == (kind in unheld)
    assert overlay.delivered() == {}


def _sealed(told: Announcement, signer: str) -> bytes:
    return seal_announcement(
        told,
        signing_key=organisation().agents[signer].keys.signing,
        hop_key=organisation().overlay_key("o", 1),
        epoch=1,
        random=SYSTEM_RANDOM,
    )


def test_announcements_of_others_are_checked(overlay: Overlay) -> None:
    agent, queue = overlay.agents["a0"], hop_queue("a0", "world")
    base = {"issued": int(overlay.clock.time), "expires": int(overlay.clock.time) + 60}
    newer = {**base, "number": 2**60}
    for message, counted, refused in (
        (_sealed(announcement(**newer), "a2"), 1, 0),  # not of a1: nothing is believed of it
        (_sealed(announcement(to="a3", **newer), "a1"), 1, 1),
        (_sealed(announcement(domain="moon", **newer), "a1"), 1, 2),
        (_sealed(announcement(**{**newer, "issued": 2_000_000, "expires": 2_000_060}), "a1"), 2, 2),
        (_sealed(announcement("stranger", **newer), "a1"), 3, 2),
        (_sealed(announcement(**newer), "a1")[:-1], 3, 3),
    ):
        overlay.broker.put(queue, message)
        overlay.pump("a0")
        counters = agent.statistics.counters("world")
        assert counters.get("interests_refused", 0) == counted
        assert sum(agent.statistics.refusals("world").values()) == refused


def test_receipts_for_others_are_refused(overlay: Overlay) -> None:
    sealed = seal_taken(
        Taken("world", "a1", "a2", (b"k" * 16,)),
        hop_key=organisation().overlay_key("o", 1),
        epoch=1,
        random=SYSTEM_RANDOM,
    )
    overlay.broker.put(hop_queue("a0", "world"), sealed)
    overlay.pump("a0")
    assert overlay.agents["a0"].statistics.refusals("world") == {"malformed": 1}


def test_an_announcement_stands_before_the_reply_to_the_subscriber(overlay: Overlay) -> None:
    sent: list[str] = []
    agent = overlay.agents["a0"]
    send = agent.transport.send_many

    def watched(messages, **named) -> None:
        listed: list[Outgoing] = list(messages)
        sent.extend(one.queue for one in listed)
        send(listed, **named)

    agent.transport.send_many = watched  # type: ignore[method-assign]
    overlay.request("sub-a0", "subscribe", "News")
    overlay.pump("a0")
    told = [
        n for n in AGENTS[1:] if any(n in carriers(kind) for kind in ("News", "Sport", "Tennis"))
    ]
    assert sorted(sent[:-1]) == [hop_queue(name, "world") for name in told]
    assert sent[-1] == "pc.deliver.sub-a0"


def test_nothing_readable_of_interests_stands_in_the_broker() -> None:
    overlay = Overlay()
    overlay.request("sub-a0", "subscribe", "News", "level == 3 && secret == 1")
    for agent in ("a1", "a2", "a3", "a4"):
        overlay.agents[agent].stop()
    overlay.pump("a0")
    bodies = [body for name in AGENTS for body in overlay.broker.bodies(hop_queue(name, "world"))]
    assert {hop_kind(body) for body in bodies} == {"interest"}
    for secret in (b"News", b"level", b"secret", b"Weather"):
        assert not any(secret in body for body in bodies)
    who = {name: agent.keys.signing.public for name, agent in organisation().agents.items()}
    keys = {1: organisation().overlay_key("o", 1)}
    told = [open_announcement(one, hop_keys=keys, verify_key=who.__getitem__) for one in bodies]
    assert all("secret ==" not in str(one.to_json()) for one in told)
