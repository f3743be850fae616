"""Texts of roles: written and read back, junk refused, searches against brute force."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from policyengine.errors import InputError
from policyengine.roles import (
    Atom,
    RolePolicy,
    Session,
    Variable,
    read_atom,
    read_rule,
    run_session,
)
from policyengine.roles.terms import order

QUICK = settings(max_examples=150, deadline=None)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}([-.][a-z0-9]{1,4})?", fullmatch=True).filter(
    lambda name: not name.startswith("env.")
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.one_of(
    st.integers(-(10**60), 10**60),
    st.floats(-1e15, 1e15).filter(lambda number: abs(number) > 1e-9),
)
CONSTANTS = st.one_of(
    TEXTS, NUMBERS, st.sampled_from(["7", "x", "-1", "1.0", "a b", "true", "anna"])
)
VARIABLES = st.sampled_from("abcxyz").map(Variable)
GROUND = st.builds(Atom, NAMES, st.lists(CONSTANTS, max_size=4).map(tuple))
ATOMS = st.builds(Atom, NAMES, st.lists(st.one_of(CONSTANTS, VARIABLES), max_size=4).map(tuple))


@QUICK
@given(ATOMS)
def test_atoms_are_read_as_they_are_written(atom: Atom) -> None:
    again = read_atom(atom.text)
    assert again == atom
    assert again.text == atom.text


@QUICK
@given(GROUND, GROUND)
def test_one_atom_has_one_text(one: Atom, other: Atom) -> None:
    assert (one.text == other.text) == (one == other)
    assert (order(one) == order(other)) == (one == other)


@QUICK
@given(st.text(st.sampled_from("ax7 (),\"'\\!.-é\n\ud800"), max_size=20))
@example("a(" * 2000)
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    try:
        atom = read_atom(text)
    except InputError as error:
        place = error.at
    else:
        assert read_atom(atom.text) == atom
        place = 0
    assert place is not None
    assert 0 <= place <= len(text)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["a", "a(x)", "!a", "env.on", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["rules", "role", "prerequisites", "membership", "constraints", "do", "at", "env"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@QUICK
@given(JUNK, JUNK)
def test_junk_is_refused_and_nothing_else_happens(policy: Any, steps: Any) -> None:
    try:
        results = run_session(policy, steps)
    except InputError:
        return
    assert len(results) == len(steps)


@st.composite
def queries(draw: st.DrawFn) -> list[tuple[str, tuple[str, ...]]]:
    """Conjunctions over two relations that share variables every which way."""
    letters = st.sampled_from("abcd")
    pairs = st.tuples(st.just("e"), st.tuples(letters, letters))
    singles = st.tuples(st.just("p"), st.tuples(letters))
    return draw(st.lists(st.one_of(pairs, singles), min_size=1, max_size=6))


@QUICK
@given(
    queries(),
    st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=9),
    st.sets(st.integers(0, 3), max_size=3),
)
def test_joins_are_found_when_brute_force_finds_them(
    query: list[tuple[str, tuple[str, ...]]], pairs: set[tuple[int, int]], singles: set[int]
) -> None:
    rule = read_rule("r", appointments=[f"{name}({', '.join(terms)})" for name, terms in query])
    session = Session(RolePolicy((rule,)))
    there = {("e", pair) for pair in pairs} | {("p", (single,)) for single in singles}
    for name, values in there:
        session.appoint(f"{name}({', '.join(map(str, values))})")
    solutions = [
        bindings
        for values in itertools.product(range(4), repeat=4)
        for bindings in [dict(zip("abcd", values, strict=True))]
        if all((name, tuple(bindings[term] for term in terms)) in there for name, terms in query)
    ]
    outcome = session.activate("r")
    assert outcome.ok == bool(solutions)
    if outcome.activation is not None:
        found = dict(outcome.activation.bindings)
        assert any(found.items() <= solution.items() for solution in solutions)
