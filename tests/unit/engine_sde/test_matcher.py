"""Many filters, remembered trapdoors, bounded memory, threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from policyengine.attributes import ANY, Element, Leaf, value_text
from policyengine.errors import InputError, RejectedError
from policyengine.sde import EncryptedEvent, Matcher, encrypt_filter, matches
from policyengine.sde.matching import Target
from tests.unit.engine_sde.samples import GROUPS, World

FILTERS = {
    "west": 'zone == "West"',
    "high": "level > 7",
    "both": 'zone == "West" && level > 7',
    "other": 'zone != "West"',
    "absent": "!has(zone)",
    "any": 'atLeast(2, [on, level < 4, zone startsWith "We"])',
}
WEST = Element("zone==", value_text("West"))
EVENTS = [
    {},
    {"zone": "West"},
    {"zone": "East", "level": 9},
    {"zone": "West", "level": 9, "on": True},
    {"level": 2, "on": True},
]


@pytest.mark.parametrize("group", GROUPS)
def test_memory_agrees_with_no_memory(group) -> None:
    world = World(group)
    filters = {name: world.filter(text) for name, text in FILTERS.items()}
    kept, forgetful = Matcher(world.master.system), Matcher(world.master.system, memory=0)
    for name, encrypted in filters.items():
        kept.add(name, encrypted)
        forgetful.add(name, encrypted)
    assert len(kept) == len(filters)
    for _ in range(2):
        for values in EVENTS:
            event = world.event(values)
            expected = {name for name, one in filters.items() if matches(one, event)}
            assert kept.match(event) == forgetful.match(event) == expected
    assert kept.remembered > 0
    assert forgetful.remembered == 0


class Counting:
    """Counts comparisons, one for each leaf and trapdoor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        plain = Target.leaf_holds

        def counted(target, leaf, inverse):
            self.count += 1
            return plain(target, leaf, inverse)

        monkeypatch.setattr(Target, "leaf_holds", counted)

    def during(self, work) -> int:
        before = self.count
        work()
        return self.count - before


def test_a_known_trapdoor_costs_no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    world, counting = World(), Counting(monkeypatch)
    matcher = Matcher(world.master.system)
    matcher.match(world.event({"on": True}))  # before there is any filter
    matcher.add("a", world.leaf(Element("on==", "true")))
    matcher.add("b", world.leaf(ANY))
    event = world.event({"on": True})
    size = len(event.trapdoors)
    assert counting.during(lambda: matcher.match(event)) == 2 * size
    assert counting.during(lambda: matcher.match(world.event({"on": True}))) == 0
    # a new filter is compared with known trapdoors, and nothing else is compared again
    matcher.add("c", world.leaf(ANY))
    assert counting.during(lambda: matcher.match(event)) == size
    assert matcher.match(event) == {"a", "b", "c"}
    matcher.remove("b")
    assert counting.during(lambda: matcher.match(event)) == 0
    assert matcher.match(event) == {"a", "c"}


def test_removal_forgets() -> None:
    world = World()
    matcher = Matcher(world.master.system)
    event = world.event({})
    matcher.match(event)
    bare = matcher.remembered
    matcher.add("a", world.leaf(ANY))
    assert matcher.match(event) == {"a"}
    assert matcher.remembered == bare + 1
    matcher.remove("a")
    assert matcher.remembered == bare
    assert matcher.match(event) == set()
    assert len(matcher) == 0
    for call in (lambda: matcher.remove("a"), lambda: matcher.places("a", event)):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.kind == "unknown"


def test_a_filter_of_the_same_name_takes_the_place() -> None:
    world = World()
    matcher = Matcher(world.master.system)
    matcher.add("a", world.filter("on"))
    event = world.event({"on": True})
    assert matcher.match(event) == {"a"}
    matcher.add("a", world.filter("!on"))
    assert matcher.match(event) == set()
    assert matcher.match(world.event({"on": False})) == {"a"}
    assert len(matcher) == 1


def test_memory_is_bounded_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    world, counting = World(), Counting(monkeypatch)
    matcher = Matcher(world.master.system, memory=3)
    matcher.add("a", world.leaf(Element("x", "1")))

    def one(value: str) -> EncryptedEvent:
        return EncryptedEvent(world.master.system, (world.trapdoor(Element("x", value)),))

    assert matcher.match(one("1")) == {"a"}  # counts two: itself and the filter it touches
    matcher.match(one("2"))
    assert matcher.remembered == 3
    assert counting.during(lambda: matcher.match(one("1"))) == 0  # used again
    matcher.match(one("3"))
    assert matcher.remembered == 3
    assert counting.during(lambda: matcher.match(one("1"))) == 0
    assert counting.during(lambda: matcher.match(one("2"))) == 1  # was forgotten
    wide = EncryptedEvent(
        world.master.system, tuple(world.trapdoor(Element("x", str(at))) for at in range(9))
    )
    assert matcher.match(wide) == {"a"}
    assert matcher.remembered <= 3
    with pytest.raises(InputError):
        Matcher(world.master.system, memory=-1)


def test_a_filter_that_asks_for_nothing_is_always_looked_at() -> None:
    """No access tree is one, but a subscriber may send it: a negated leaf on its own."""
    world = World()
    matcher = Matcher(world.master.system)
    matcher.add("not", world.leaf(Element("on==", "true"), negated=True))
    assert matcher.match(world.event({"on": False})) == {"not"}
    assert matcher.match(world.event({"on": True})) == set()
    assert matcher.match(world.event({})) == {"not"}
    matcher.remove("not")
    assert matcher.match(world.event({})) == set()


def test_places_say_which_trapdoor_met_which_leaf() -> None:
    world = World()
    matcher = Matcher(world.master.system)
    trees = [Leaf(WEST), Leaf(Element("zone?", "0"))]
    for name, tree in zip(("west", "absent"), trees, strict=True):
        prepared = encrypt_filter(world.subscriber, tree, random=world.random)
        matcher.add(name, world.broker.filter(prepared.filter))
    matcher.add("both", world.filter('zone == "West" && has(zone) && on'))
    event = world.event({"zone": "West"})
    west = event.trapdoors.index(world.trapdoor(WEST))
    present = event.trapdoors.index(world.trapdoor(Element("zone?", "1")))
    assert matcher.places("west", event) == {0: west}
    assert matcher.places("absent", event) == {}
    assert sorted(matcher.places("both", event).values()) == sorted([west, present])


def test_other_systems_are_refused() -> None:
    world, other = World(), World("curve", b"other")
    matcher = Matcher(world.master.system)
    matcher.add("a", world.filter("on"))
    for call in (
        lambda: matcher.add("b", other.filter("on")),
        lambda: matcher.match(other.event({})),
        lambda: matcher.places("a", other.event({})),
    ):
        with pytest.raises(RejectedError) as caught:
            call()
        assert caught.value.reason == "system"


def test_eight_threads() -> None:
    world = World()
    matcher = Matcher(world.master.system, memory=60)
    steady = {name: world.filter(text) for name, text in FILTERS.items()}
    for name, encrypted in steady.items():
        matcher.add(name, encrypted)
    events = [world.event(values) for values in EVENTS]
    expected = [{name for name, one in steady.items() if matches(one, event)} for event in events]
    passing = world.filter("on")
    wrong: list[object] = []

    def work(number: int) -> None:
        for turn in range(12):
            at = (turn + number) % len(events)
            found = matcher.match(events[at])
            if {name for name in found if name in steady} != expected[at]:
                wrong.append((at, found))
            own = f"passing {number}"
            matcher.add(own, passing)
            if own not in matcher.match(events[3]):
                wrong.append(own)
            matcher.remove(own)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert wrong == []
    assert len(matcher) == len(steady)
    assert matcher.remembered <= 60
