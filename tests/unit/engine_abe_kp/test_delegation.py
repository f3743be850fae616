"""Narrowing keys."""

from __future__ import annotations

import itertools

import pytest

from policyengine.abe import (
    KpMode,
    decode_filter_key,
    delegate,
    delegation,
    encapsulate,
    encode_filter_key,
    keygen,
    public_key,
    setup,
)
from policyengine.attributes import ANY, Gate, Leaf, Node, satisfied
from policyengine.errors import InputError
from tests.unit.engine_abe_kp.samples import (
    MODES,
    A,
    B,
    C,
    D,
    E,
    both,
    either,
    event,
    filter_tree,
    key_for,
    leaf,
    master,
    opens,
    public,
)

a, b, c, d, e = (leaf(element) for element in (A, B, C, D, E))


def of(count: int, *terms: Node) -> Gate:
    return Gate(count, terms)


NARROWER: list[tuple[str, Node, Node]] = [
    ("the same leaf", a, a),
    ("a term beside a leaf", a, both(a, b)),
    ("a term of an AND", both(a, b), both(a, b, c)),
    ("terms in another order", both(a, b), both(c, b, a)),
    ("an alternative dropped", either(a, b, c), either(c, a)),
    ("all alternatives but one", either(a, b), b),
    ("an OR raised to a threshold", either(a, b, c), of(2, a, b, c)),
    ("an OR raised to an AND", either(a, b, c), both(a, b, c)),
    ("a threshold kept", of(2, a, b, c), of(2, a, b, c)),
    ("a threshold turned round", of(2, a, b, c), of(2, c, a, b)),
    ("a threshold raised", of(2, a, b, c, d), of(3, a, b, c, d)),
    ("a threshold raised to an AND", of(2, a, b, c), both(a, b, c)),
    ("a term struck from a threshold", of(2, a, b, c, d), of(2, a, c, d)),
    ("struck until it is an AND", of(2, a, b, c), both(a, c)),
    ("a term added and the threshold raised", of(2, a, b, c), of(3, a, b, c, d)),
    ("struck, added and raised", of(2, a, b, c, d), of(3, a, e, d, b)),
    ("a threshold spread over a leaf", a, of(2, both(a, b), both(a, c), d)),
    ("inside", both(either(a, b), of(2, c, d, e)), both(a, of(2, c, both(d, a), e), b)),
    (
        "a conjunction below an alternative",
        either(both(a, b), c),
        either(both(a, b, d), both(c, e)),
    ),
    ("one term for two", both(either(a, b), either(a, c)), a),
    ("two thresholds in one", both(of(2, a, b, c), of(2, a, b, d)), both(a, b)),
    ("the same threshold twice", both(of(2, a, b, c), either(a, b, c)), of(2, a, b, c)),
    ("two terms for one", of(2, a, b, c), of(3, both(a, d), both(a, e), b, c)),
    (
        "two thresholds of one numbering",
        both(of(2, a, b, c), of(2, either(a, d), b, c)),
        of(2, a, b, c),
    ),
    ("a threshold of alternatives", of(2, either(a, b), either(a, c), d), of(2, a, c, d)),
]
WIDER: list[tuple[Node, Node]] = [
    (a, b),
    (both(a, b), a),
    (both(a, b), either(a, b)),
    (either(a, b), either(a, b, c)),
    (of(2, a, b, c), either(a, b, c)),
    (of(2, a, b, c), of(2, a, b, d)),
    (of(2, a, b, c), of(2, a, b, c, d)),
    (of(3, a, b, c, d), of(2, a, b, c, d)),
    (of(2, a, b, c), a),
    (of(2, a, b, c), of(2, both(a, d), both(a, e), b)),
    (a, of(2, a, b, c)),
]


@pytest.fixture(scope="module")
def events() -> list[tuple[tuple[object, ...], object]]:
    subsets = [
        subset for size in range(1, 6) for subset in itertools.combinations((A, B, C, D, E), size)
    ]
    return [(subset, encapsulate(public(), subset)) for subset in subsets]


@pytest.mark.parametrize(
    ("old", "new"), [pair[1:] for pair in NARROWER], ids=[p[0] for p in NARROWER]
)
def test_a_narrowed_key_opens_exactly_what_its_filter_allows(
    old: Node, new: Node, events: list[tuple[tuple[object, ...], object]]
) -> None:
    wide = keygen(master(), old)
    narrow = delegate(public(), wide, new)
    assert narrow.sharing.tree == new
    again = decode_filter_key(encode_filter_key(narrow))
    assert again == narrow
    for subset, sent in events:
        assert opens(again, sent) == satisfied(new, subset)  # type: ignore[arg-type]


@pytest.mark.parametrize(("old", "new"), WIDER)
def test_nothing_wider_can_be_derived(old: Node, new: Node) -> None:
    with pytest.raises(InputError) as caught:
        delegate(public(), keygen(master(), old), new)
    assert caught.value.kind == "invalid"


@pytest.mark.parametrize("mode", MODES)
def test_filters_of_the_language(mode: KpMode) -> None:
    wide = key_for('level > 3 || zone == "West"', mode)
    narrow = delegate(public(mode), wide, filter_tree('level > 3 && unit == "b"'))
    assert opens(narrow, event(mode=mode))
    assert not opens(narrow, event({"level": 9, "unit": "a", "zone": "West"}, mode))
    assert not opens(narrow, event({"level": 2, "unit": "b", "zone": "West"}, mode))


def test_negated_leaves() -> None:
    narrow = delegate(
        public(), key_for('zone != "East"'), filter_tree('zone != "East" && zone != "North"')
    )
    assert opens(narrow, event())
    for zone in ("East", "North"):
        assert not opens(narrow, event({"zone": zone}))


def test_a_key_of_everything_is_narrowed_below_its_leaf() -> None:
    tree = both(Leaf(ANY), filter_tree("level > 3"))
    narrow = delegate(public(), keygen(master(), Leaf(ANY)), tree)
    assert opens(narrow, event())
    assert not opens(narrow, event({"level": 3}))


def test_again_and_again() -> None:
    first = delegate(
        public(),
        keygen(master(), of(2, a, b, c, d)),
        of(
            3,
            a,
            b,
            c,
            d,
        ),
    )
    second = delegate(public(), first, of(3, b, c, d, a))
    third = delegate(public(), second, both(b, c, d))
    assert opens(third, encapsulate(public(), [B, C, D]))
    assert not opens(third, encapsulate(public(), [A, B, C]))


def test_new_keys_are_fresh() -> None:
    wide = keygen(master(), both(a, b))
    first, second = (delegate(public(), wide, both(a, b)) for _ in range(2))
    for one, other, old in zip(first.leaves, second.leaves, wide.leaves, strict=True):
        assert len({point.serialize() for point in (one.d, other.d, old.d)}) == 3
        assert len({point.serialize() for point in (one.r, other.r, old.r)}) == 3


def test_leaves_of_two_narrowed_keys_do_not_add_up() -> None:
    wide = keygen(master(), both(a, b))
    first, second = (delegate(public(), wide, both(a, b, c)) for _ in range(2))
    mixed = type(first)("hash", first.sharing, (first.leaves[0], *second.leaves[1:]))
    assert not opens(mixed, encapsulate(public(), [A, B, C]))


def test_indices_chosen_once_hold() -> None:
    """Two old thresholds cannot both give their indices to one new gate."""
    first, second = of(2, a, b, c, d), of(2, d, c, b, a)
    with pytest.raises(InputError):
        delegate(public(), keygen(master(), both(first, second)), of(2, a, b, c))
    same = keygen(master(), both(first, either(a, b, c, d)))
    assert opens(delegate(public(), same, of(2, b, c, d)), encapsulate(public(), [B, D]))


def test_strangers_and_other_modes() -> None:
    with pytest.raises(InputError, match="different authorities"):
        delegate(public_key(setup()), keygen(master(), a), both(a, b))
    with pytest.raises(InputError, match="different modes"):
        delegate(public("polynomial"), keygen(master(), a), both(a, b))
    with pytest.raises(InputError) as caught:
        delegate(
            public("polynomial"),
            key_for("level > 3", "polynomial"),
            both(filter_tree("level > 3"), filter_tree('zone != "a"')),
        )
    assert caught.value.kind == "unsupported"


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Node = a
    for _ in range(400):
        deep = both(b, either(c, deep)) if isinstance(deep, Leaf) else both(b, deep)
    key = keygen(master(), a)
    with pytest.raises(InputError, match="nest too deep"):
        delegate(public(), key, deep)
    monkeypatch.setattr(delegation, "MAX_STEPS", 3)
    with pytest.raises(InputError, match="too large"):
        delegate(public(), keygen(master(), both(a, b, c)), both(c, b, a))
