"""Plans against exhaustive search, parts against the plaintext, attackers against sets."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.privacy import (
    Assembly,
    Filter,
    KeySealer,
    Part,
    SplitPlan,
    coalitions,
    colluding,
    exposed,
    minimal_sets,
    new_id,
    plan_of,
    plan_split,
    roundtrip,
    split_publication,
    violations,
)

KEY = bytes(32)
COSTS = [0, 0.1, 0.25, 0.3, 1, 1, 1, 2, Fraction(1, 3)]
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)


def placements(count: int, overlays: int) -> Iterator[list[int]]:
    """Every way to encrypt (-1) or place attributes on overlays that are alike."""
    stack: list[list[int]] = [[]]
    while stack:
        places = stack.pop()
        if len(places) == count:
            yield places
            continue
        fresh = max(places, default=-1) + 1
        stack += [[*places, place] for place in range(-1, min(fresh + 1, overlays))]


def safe(places: list[int], risky: list[set[int]], c: int) -> bool:
    """Play every coalition of c overlays."""
    return not any(
        any(all(places[member] in seen for member in one) for one in risky)
        for seen in combinations(range(len(places)), min(c, len(places)))
    )


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    """A small question to the planner."""
    count = draw(st.integers(1, 6))
    sets = st.sets(st.integers(0, count - 1), min_size=1, max_size=4)
    return {
        "count": count,
        "risky": draw(st.lists(sets, max_size=9)),
        "c": draw(st.integers(1, 3)),
        "overlays": draw(st.integers(1, 4)),
        "costs": [draw(st.sampled_from(COSTS)) for _ in range(count)],
        "filters": draw(st.lists(st.tuples(sets, st.sampled_from([0.5, 1, 3])), max_size=2)),
    }


def exhaustive(asked: dict[str, Any]) -> tuple[Fraction, int, Fraction]:
    """The least cost, overlays and over-delivery, by trying everything."""
    costs = [Fraction(str(cost)) for cost in asked["costs"]]

    def score(places: list[int]) -> tuple[Fraction, int, Fraction]:
        over = Fraction(0)
        for names, weight in asked["filters"]:
            touched = {places[name] for name in names} - {-1}
            over += Fraction(str(weight)) * max(0, len(touched) - 1)
        cost = sum((costs[at] for at, place in enumerate(places) if place < 0), Fraction(0))
        return cost, len(set(places) - {-1}), over

    every = placements(asked["count"], asked["overlays"])
    return min(score(one) for one in every if safe(one, asked["risky"], asked["c"]))


def ask(asked: dict[str, Any], **more: Any) -> Any:
    names = [f"a{number}" for number in range(asked["count"])]
    return plan_split(
        names,
        [[names[at] for at in one] for one in asked["risky"]],
        colluding=asked["c"],
        max_overlays=asked["overlays"],
        encrypt_cost=dict(zip(names, asked["costs"], strict=True)),
        filters=[Filter(frozenset(names[at] for at in one), by) for one, by in asked["filters"]],
        **more,
    )


@given(questions())
@settings(max_examples=120, deadline=None)
def test_the_plan_is_what_exhaustive_search_finds(asked: dict[str, Any]) -> None:
    made = ask(asked)
    assert made.optimal
    assert (made.cost, len(made.plan.overlays), made.over_delivery) == exhaustive(asked)
    assert made.cost_bound == made.cost
    assert made.overlays_bound <= len(made.plan.overlays) <= asked["overlays"]
    assert len(made.notes) == len(made.plan.encrypted)


@given(questions())
@settings(max_examples=120, deadline=None)
def test_the_greedy_plan_is_safe_and_its_bound_holds(asked: dict[str, Any]) -> None:
    made = ask(asked, time_limit=0)
    best = exhaustive(asked)
    assert made.cost_bound <= best[0] <= made.cost
    assert 0 <= made.gap <= 1
    names = [[f"a{at}" for at in one] for one in asked["risky"]]
    assert violations(made.plan, names, asked["c"]) == ()
    if made.optimal:
        assert (made.cost, len(made.plan.overlays), made.over_delivery) == best


@st.composite
def plans(draw: st.DrawFn) -> SplitPlan:
    """Any plan over six names, good or bad, with empty overlays too."""
    places = {name: draw(st.integers(-1, 3)) for name in "abcdef"}
    used = draw(st.integers(max(places.values()) + 1, 4))
    groups = [[name for name, place in places.items() if place == at] for at in range(used)]
    return plan_of(groups, [name for name, place in places.items() if place < 0])


@given(plans(), st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), max_size=6))
@settings(max_examples=150, deadline=None)
def test_violations_are_what_coalitions_learn(plan: SplitPlan, risky: list[set[str]]) -> None:
    assert SplitPlan.decode(plan.encode()) == plan
    values = dict.fromkeys("abcdef", 1)
    parts = split_publication(plan, values, sealer=KeySealer(KEY), publication=new_id())
    for c in range(1, plan.parts + 1):
        learnt = {one for knows in coalitions(parts, c) for one in exposed(knows, risky)}
        found = violations(plan, risky, c)
        assert {one.risky for one in found} == learnt
        for one in found:
            assert len(one.overlays) <= c
            assert exposed(colluding(parts, one.overlays), [one.risky]) == (one.risky,)


@given(st.lists(st.frozensets(st.sampled_from("abcde"), min_size=1), max_size=12))
@settings(max_examples=150, deadline=None)
def test_least_sets_stand_for_all(sets: list[frozenset[str]]) -> None:
    least = minimal_sets(sets)
    assert set(least) == {one for one in sets if not any(other < one for other in sets)}
    assert len(least) == len(set(least))


@given(plans(), st.dictionaries(st.sampled_from("abcdef"), VALUES), st.data())
@settings(max_examples=150, deadline=None)
def test_what_arrives_is_what_was_sent_or_what_is_missing(
    plan: SplitPlan, values: dict[str, Any], data: st.DataObject
) -> None:
    deliver = data.draw(st.lists(st.integers(0, plan.parts - 1), max_size=10))
    outcome = roundtrip(plan, values, deliver)
    missing = tuple(sorted(set(range(plan.parts)) - set(deliver)))
    if missing:
        assert (outcome.publication, outcome.missing) == (None, missing)
        return
    assert outcome.missing == ()
    assert outcome.publication is not None
    assert outcome.publication == values
    assert all(type(outcome.publication[name]) is type(value) for name, value in values.items())


@given(st.lists(plans(), min_size=2, max_size=4), st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_many_publications_in_any_order_with_doubles(plans: list[SplitPlan], random: Any) -> None:
    sealer = KeySealer(KEY)
    sent: dict[str, dict[str, Any]] = {}
    wire: list[bytes] = []
    for number, plan in enumerate(plans):
        publication = new_id()
        sent[publication] = dict.fromkeys("abcdef", number)
        parts = split_publication(plan, sent[publication], sealer=sealer, publication=publication)
        wire += [part.encode() for part in parts] * 2
    random.shuffle(wire)
    assembly = Assembly(sealer)
    received = [whole for data in wire if (whole := assembly.add(Part.decode(data))) is not None]
    assert {whole.publication: whole.values for whole in received} == sent
    assert len(received) == len(sent)
