"""What everybody could activate, all at once, against a session for each principal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.errors import InputError
from policyengine.roles import (
    Atom,
    RolePolicy,
    Session,
    activation_from_json,
    activation_to_json,
    crowd,
    in_order,
)

VALUES = [1, 2, "West"]
TERMS = ["x", "y", "1", "West"]
APPOINTMENTS = {"a": 0, "b": 1, "c": 2}
ROLES = {"r0": 0, "r1": 1, "r2": 2, "r3": 1, "r4": 0}
CONSTRAINTS = {"env.h >= 9": "", "x != 2": "x", "env.h == y": "y"}


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    role = draw(st.sampled_from(sorted(ROLES)))
    below = {name: size for name, size in ROLES.items() if name < role}

    def atoms(names: dict[str, int], most: int) -> list[str]:
        picked = draw(st.lists(st.sampled_from(sorted(names)), max_size=most)) if names else []
        return [written(name, names[name]) for name in picked]

    def written(name: str, size: int) -> str:
        terms = draw(st.lists(st.sampled_from(TERMS), min_size=size, max_size=size))
        return f"{name}({', '.join(terms)})" if terms else name

    needs, asked = atoms(below, 2), atoms(APPOINTMENTS, 2)
    bound = [letter for letter in "xy" if any(_has(text, letter) for text in (*needs, *asked))]
    free = [*bound, "1", "West"]
    size = ROLES[role]
    terms = draw(st.lists(st.sampled_from(free), min_size=size, max_size=size))
    usable = [text for text, letter in CONSTRAINTS.items() if not letter or letter in bound]
    conditions = draw(st.lists(st.sampled_from(usable), max_size=1)) if usable else []
    return {
        "role": f"{role}({', '.join(terms)})" if terms else role,
        "prerequisites": needs,
        "appointments": asked,
        "constraints": conditions,
        "membership": [*needs, *asked, *conditions],
    }


def _has(text: str, letter: str) -> bool:
    return letter in text.partition("(")[2].replace(")", "").replace(" ", "").split(",")


def facts() -> st.SearchStrategy[Atom]:
    return st.sampled_from(sorted(APPOINTMENTS)).flatmap(
        lambda name: st.lists(
            st.sampled_from(VALUES), min_size=APPOINTMENTS[name], max_size=APPOINTMENTS[name]
        ).map(lambda terms: Atom(name, tuple(terms)))
    )


def everything(policy: RolePolicy, held: list[Atom], environment: dict[str, Any]) -> Session:
    """A session in which everything that can be is active, by trying until nothing is added."""
    session, _ = Session.resume(
        policy, now=0, appointments=held, environment=environment, activations=()
    )
    while True:
        before = session.active
        for name, size in ROLES.items():
            for terms in _tuples(size):
                session.activate(Atom(name, terms).text)
        if session.active == before:
            return session


def _tuples(size: int) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = [()]
    for _ in range(size):
        found = [(*each, value) for each in found for value in VALUES]
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.lists(rules(), max_size=7),
    st.lists(st.lists(facts(), max_size=4), min_size=1, max_size=4),
    st.sampled_from([{}, {"env.h": 9}, {"env.h": 2}]),
)
def test_a_crowd_is_its_sessions(
    documents: list[Any], people: list[list[Atom]], environment: dict[str, Any]
) -> None:
    policy = RolePolicy.from_json({"rules": documents})
    held = [(at, atom.name, atom.terms) for at, atoms in enumerate(people) for atom in atoms]
    found = crowd(policy.rules, held, len(people), environment)  # type: ignore[arg-type]
    assert not found.overfull
    for at, atoms in enumerate(people):
        flat = {name for name, column in found.columns.items() if column[at]}
        joined = {
            Atom(name, terms).text
            for (name, _), rows in found.rows.items()
            for terms in rows.get(at, ())
        }
        assert sorted(flat | joined) == list(everything(policy, atoms, environment).active)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(rules(), max_size=7),
    st.lists(facts(), max_size=5, unique=True),
    st.lists(st.integers(0, 4), max_size=5),
    st.sampled_from([{"env.h": 9}, {"env.h": 2}, {}]),
)
def test_what_is_taken_up_again_has_fallen_as_in_a_live_session(
    documents: list[Any], held: list[Atom], gone: list[int], later: dict[str, Any]
) -> None:
    """Putting a session down and taking it up later ends just what a watched one would have."""
    policy = RolePolicy.from_json({"rules": documents})
    live = everything(policy, held, {"env.h": 9})
    kept = [activation_from_json(activation_to_json(each)) for each in live.activations]
    assert tuple(kept) == live.activations
    left = [atom for at, atom in enumerate(held) if at not in gone]
    for atom in held:
        if atom not in left:
            live.revoke(atom.text)
    live.set({"h": later.get("env.h")})
    taken, fallen = Session.resume(
        policy, now=0, appointments=left, environment=later, activations=kept
    )
    assert taken.active == live.active
    assert {each.role.text for each in fallen} == {e.role.text for e in kept} - set(live.active)
    for each in taken.activations:  # nothing is active without support
        for condition in each.membership:
            kind = getattr(condition, "kind", "")
            if kind == "role":
                assert condition.atom.text in taken.active  # type: ignore[union-attr]
            elif kind == "appointment":
                assert condition.atom in left  # type: ignore[union-attr]
    assert all(each.chain[-1] == each.reason for each in fallen)


def test_a_chosen_parameter_has_no_end() -> None:
    policy = RolePolicy.from_json({"rules": [{"role": "r1(x)"}]})
    with pytest.raises(InputError, match="chooses `x`"):
        crowd(policy.rules, [], 1, {})


def test_too_many_ways_is_nothing_at_all() -> None:
    policy = RolePolicy.from_json(
        {"rules": [{"role": "r0", "appointments": ["b(x)", "c(y, z)"]}, {"role": "r4"}]}
    )
    held = [(0, "b", (n,)) for n in range(101)] + [(0, "c", (n, 1)) for n in range(101)]
    held += [(1, "b", (1,)), (1, "c", (1, 1))]
    found = crowd(policy.rules, held, 2, {})
    assert found.overfull == {0}
    assert {name: column.to01() for name, column in found.columns.items()} == {
        "r0": "01",
        "r4": "01",
    }
    assert [rule.role.name for rule in in_order(policy.rules)] == ["r0", "r4"]
