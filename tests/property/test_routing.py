"""Routing by interest reaches exactly those that sending everything everywhere reaches.

Random overlays' lives: subscriptions come and go, agents crash and come back, forget what
they knew of the others, time passes. The oracle knows only subscriptions and events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokers.data.interests import Reducer
from brokers.data.subscriptions import Subscription
from policyengine.attributes import evaluate
from policyengine.bundles import rendezvous
from policyengine.events import covers
from tests.support.overlay import AGENTS, TYPES, Overlay, snapshot

FILTERS = {
    "": lambda _: True,
    "level == 3": lambda event: event["level"] == 3,
    "level > 4": lambda event: event["level"] > 4,
    "level > 2 && level < 7": lambda event: 2 < event["level"] < 7,
    "!(level == 3)": lambda event: event["level"] != 3,
    "secret >= 5": lambda event: event["secret"] >= 5,
    "level < 5 && secret == 1": lambda event: event["level"] < 5 and event["secret"] == 1,
}
HOLDERS = set(AGENTS[:3])

AGENT = st.sampled_from(AGENTS)
TYPE = st.sampled_from(list(TYPES))
HANDLE = st.tuples(st.sampled_from(["sub", "sub2"]), AGENT).map("-".join)
DIGIT = st.integers(0, 9)
VALUES = st.fixed_dictionaries({"level": DIGIT, "secret": DIGIT})
STEPS = st.one_of(
    st.tuples(st.just("subscribe"), HANDLE, TYPE, st.sampled_from(list(FILTERS))),
    st.tuples(st.just("subscribe"), HANDLE, TYPE, st.sampled_from(list(FILTERS))),
    st.tuples(st.just("unsubscribe"), st.integers(0, 20)),
    st.tuples(st.just("publish"), AGENT, TYPE, VALUES),
    st.tuples(st.just("publish"), AGENT, TYPE, VALUES),
    st.tuples(st.just("publish"), AGENT, TYPE, VALUES),
    st.tuples(st.just("stop"), AGENT),
    st.tuples(st.just("start"), AGENT),
    st.tuples(st.just("forget"), AGENT),
    st.tuples(st.just("break"), AGENT, st.integers(0, 8)),
    st.tuples(st.just("pass"), st.sampled_from([1.0, 12.0, 250.0, 700.0])),
    st.tuples(st.just("pump"), AGENT),
    st.tuples(st.just("pump-all")),
)


def is_a(name: str, above: str) -> bool:
    """Whether a type is another one or below it, by the names alone."""
    return name == above or (bool(TYPES[name]) and is_a(TYPES[name], above))


def meets(agent: str, text: str, event: dict[str, Any]) -> bool:
    """Whether the home agent of a subscriber finds the filter met: by what it can read."""
    if "secret" in text and agent not in HOLDERS:
        return False
    return FILTERS[text](event)


@dataclass
class Life:
    """One life of an overlay, and what must and may have come of it."""

    overlay: Overlay = field(default_factory=Overlay)
    active: set[tuple[str, str, str]] = field(default_factory=set)
    must: dict[str, set[str]] = field(default_factory=dict)
    may: dict[str, set[str]] = field(default_factory=dict)
    events: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    crashed: bool = False

    def subscribe(self, handle: str, event_type: str, text: str) -> None:
        """A subscription that its client was told of."""
        home = handle.split("-")[1]
        self.overlay.agents[home].start()
        self.overlay.agents[home].transport.left = None
        self.overlay.request(handle, "subscribe", event_type, text)
        self.overlay.pump(home)
        self.active.add((handle, event_type, text))
        for identifier, kind, values in self.events:  # it may still be on its way
            if is_a(kind, event_type) and meets(home, text, values):
                self.may[identifier].add(handle)

    def unsubscribe(self, number: int) -> None:
        """A subscription that ends."""
        if not self.active:
            return
        one = sorted(self.active)[number % len(self.active)]
        handle, event_type, text = one
        home = handle.split("-")[1]
        self.overlay.agents[home].start()
        self.overlay.agents[home].transport.left = None
        self.overlay.request(handle, "unsubscribe", event_type, text)
        self.overlay.pump(home)
        self.active.discard(one)
        for identifier, kind, values in self.events:
            if handle not in self.wanting(kind, values):
                self.must[identifier].discard(handle)

    def wanting(self, kind: str, values: dict[str, Any]) -> set[str]:
        """Who wants an event now."""
        return {
            handle
            for handle, event_type, text in self.active
            if is_a(kind, event_type) and meets(handle.split("-")[1], text, values)
        }

    def publish(self, agent: str, kind: str, values: dict[str, Any]) -> None:
        """An event is handed to its home."""
        if agent not in HOLDERS:
            values = {"level": values["level"], "secret": values["secret"]}
        identifier = self.overlay.publish(agent, kind, values)
        known = values if agent in HOLDERS else {**values, "secret": -1}
        self.events.append((identifier, kind, known))
        self.must[identifier] = self.wanting(kind, known)
        self.may[identifier] = set(self.must[identifier])

    def step(self, what: str, *args: Any) -> None:
        """One step of this life."""
        overlay = self.overlay
        match what:
            case "subscribe":
                self.subscribe(*args)
            case "unsubscribe":
                self.unsubscribe(*args)
            case "publish":
                self.publish(*args)
            case "stop":
                if overlay.agents[args[0]].up:
                    overlay.agents[args[0]].stop()
            case "start":
                overlay.agents[args[0]].start()
            case "forget":
                agent = overlay.agents[args[0]]
                if agent.up:
                    agent.stop()
                agent.store.kept = {}
                # No start takes no time; what is numbered by the clock goes on above.
                overlay.clock.time += 1.0
                agent.start()
            case "break":
                self.crashed = True
                overlay.agents[args[0]].transport.left = args[1]
            case "pass":
                overlay.clock.time += args[0]
            case "pump":
                overlay.pump(args[0])
            case _:
                overlay.pump()


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(STEPS, max_size=30))
def test_everybody_gets_what_flooding_would_bring_and_gets_it_once(steps) -> None:
    life = Life()
    for what, *args in steps:
        life.step(what, *args)
    life.overlay.settle()
    got = life.overlay.delivered()
    for identifier, _, _ in life.events:
        reached = {handle for handle, every in got.items() if identifier in every}
        assert life.must[identifier] <= reached <= life.may[identifier]
    if not life.crashed:  # who dies between sending and recording sends twice
        assert all(len(every) == len(set(every)) for every in got.values())


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(HANDLE, TYPE, st.sampled_from(["", "level == 3", "level > 4"])), max_size=6),
    AGENT,
    TYPE,
    VALUES,
)
def test_nobody_without_an_interest_gets_an_event(wishes, home, kind, values) -> None:
    life = Life()
    life.overlay.pump()
    for wish in wishes:
        life.subscribe(*wish)
    life.overlay.settle()
    before = dict(life.overlay.events_to)
    life.publish(home, kind, values)
    life.overlay.settle()
    sent = {name: life.overlay.events_to[name] - before[name] for name in AGENTS}
    wanting = {handle.split("-")[1] for handle in life.wanting(kind, values)}
    carriers = set(rendezvous("world", kind, AGENTS))
    for name, number in sent.items():
        assert number <= 1
        if name not in wanting | carriers:
            assert number == 0
        elif name in wanting - {home}:
            assert number == 1
    assert sum(number for name, number in sent.items() if name not in wanting) <= 1
    got = life.overlay.delivered()
    assert {handle for handle, every in got.items() if every} == life.wanting(kind, values)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(TYPE, st.sampled_from(list(FILTERS))), max_size=8), TYPE, VALUES)
def test_what_is_told_stands_for_every_wish_and_for_none_twice(wishes, kind, values) -> None:
    home = snapshot(AGENTS[0])
    asked = [
        Subscription("world", f"sub-{AGENTS[0]}", f"s{number}", event_type, text)
        for number, (event_type, text) in enumerate(wishes)
    ]
    told = Reducer().wanted(home, asked)
    for one in told:
        assert not any(covers(home.types, other, one) for other in told if other is not one)
    # Its own keys show this agent all that its interests test.
    met = any(
        is_a(kind, one.type)
        and all(bool(evaluate(each.expression, values)) for each in one.filters)
        for one in told
    )
    wanted = any(is_a(kind, each) and FILTERS[text](values) for each, text in wishes)
    assert met == wanted
