"""Encryption of events and keys of filters."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from policyengine.abe import (
    KpMode,
    decapsulate,
    encapsulate,
    encode_ciphertext,
    keygen,
    kpabe_open,
    pairings,
    public_key,
    setup,
)
from policyengine.abe.group import BASE_1, BASE_2, base_1, base_2, power
from policyengine.abe.kp_labels import abscissa
from policyengine.abe.kp_leaves import make_leaf
from policyengine.abe.kp_model import PlainLeaf
from policyengine.abe.kp_polynomial import exponent, logarithms, make, sizes
from policyengine.abe.kp_wire import MAX_COMPONENTS
from policyengine.abe.shares import lagrange
from policyengine.attributes import (
    ANY,
    NEVER,
    AttributeType,
    Element,
    Gate,
    Leaf,
    Value,
    elements_of,
    parse,
)
from policyengine.errors import DecryptionError, InputError
from policyengine.primitives.rand import SYSTEM_RANDOM, SeededRandom
from tests.support.forks import forked
from tests.unit.engine_abe_kp.samples import (
    EVENT,
    MODES,
    SCHEMA,
    A,
    B,
    C,
    D,
    both,
    event,
    key_for,
    leaf,
    master,
    opens,
    public,
    refuse,
)

CASES = [
    ('zone == "West"', True),
    ('zone == "East"', False),
    ("level > 3 && level <= 9", True),
    ("level > 9", False),
    ('unit != "a"', True),
    ('unit != "b"', False),
    ("has(zone) && !(level < 3)", True),
    ('zone startsWith "We" && zone endsWith "t"', True),
    ('zone startsWith "Wa"', False),
    ('atLeast(2, [level == 9, unit == "a", zone == "West"])', True),
    ('atLeast(2, [level == 8, unit == "a", zone == "West"])', False),
    ("level >= 0 || level < 0 || !has(level)", True),
]
NEGATED = [
    ('zone != "East"', True),
    ('zone != "West"', False),
    ('!(zone == "West")', False),
    ('!(zone in ["a", "b"])', True),
    ('!(zone in ["a", "West"])', False),
    ('!(zone startsWith "We")', False),
    ('!(zone startsWith "Wa") && !(zone endsWith "rn")', True),
    ('atLeast(2, [zone != "a", zone != "b", zone != "West"])', True),
    ('atLeast(2, [zone != "a", zone == "b", zone != "West"])', False),
]


@pytest.mark.parametrize("mode", MODES)
def test_a_key_opens_exactly_what_its_filter_holds_for(mode: KpMode) -> None:
    sent = event(mode=mode)
    for text, expected in CASES:
        assert opens(key_for(text, mode), sent) == expected, text


def test_negated_tests_of_open_strings() -> None:
    sent = event()
    for text, expected in NEGATED:
        assert opens(key_for(text), sent) == expected, text


def test_a_negated_leaf_needs_a_value() -> None:
    without = event({"level": 9})
    assert not opens(key_for('zone != "East"'), without)
    assert opens(key_for('!(zone == "East")'), without)
    bare = keygen(master(), Leaf(Element("zone==", "East"), negated=True))
    assert opens(bare, event())
    assert not opens(bare, without)


def test_negation_is_unsupported_with_the_polynomial() -> None:
    with pytest.raises(InputError) as caught:
        key_for('zone != "East"', "polynomial")
    assert caught.value.kind == "unsupported"
    with pytest.raises(InputError, match="needs the mode"):
        make_leaf(public("polynomial"), Leaf(Element("zone==", "East"), negated=True), 1, 1)


def test_the_fewest_pairings() -> None:
    sent = event()[1]
    assert pairings(key_for('level >= 1 && zone == "West"'), sent) == 3
    text = '(level == 9 && unit == "b" && zone == "West") || (zone startsWith "W" && level > 1)'
    assert pairings(key_for(text), sent) == 3
    with pytest.raises(DecryptionError):
        pairings(key_for("level == 1"), sent)


def test_constants() -> None:
    sent = event()
    assert opens(keygen(master(), Leaf(ANY)), sent)
    assert not opens(keygen(master(), Leaf(NEVER)), sent)


def test_elements_that_cannot_be() -> None:
    for elements, text in (
        ([], "at least one"),
        ([A, NEVER], "never"),
        ([A, Element("a", "2")], "one value a label"),
    ):
        with pytest.raises(InputError, match=text):
            encapsulate(public(), elements)
    many = [Element(str(number), "1") for number in range(MAX_COMPONENTS + 1)]
    with pytest.raises(InputError) as caught:
        encapsulate(public(), many)
    assert caught.value.kind == "too-large"


def test_setup_refuses_what_cannot_be() -> None:
    with pytest.raises(InputError, match="mode"):
        setup("paper")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least one"):
        setup(elements=0)
    with pytest.raises(InputError, match="at most"):
        setup(elements=MAX_COMPONENTS + 1)


def test_a_polynomial_is_bounded() -> None:
    authority = setup("polynomial", elements=3)
    papers = public_key(authority)
    assert [each.degree for each in papers.polynomials] == [3]
    assert opens(keygen(authority, both(leaf(A), leaf(C))), encapsulate(papers, [A, B, C]))
    with pytest.raises(InputError) as caught:
        encapsulate(papers, [A, B, C, D])
    assert caught.value.kind == "too-large"


def test_large_events_get_several_polynomials() -> None:
    elements = [Element(f"label{number}", "v") for number in range(66)]
    authority = setup("polynomial", elements=len(elements))
    shared = public_key(authority)
    assert sizes(64) == (64, 1)
    assert len(shared.polynomials) == authority.polynomials == 33
    key = keygen(authority, Gate(2, tuple(Leaf(element) for element in (elements[3], NEVER, A))))
    assert not opens(key, encapsulate(shared, elements[:5]))
    key = keygen(authority, both(*(Leaf(element) for element in elements[60:])))
    assert opens(key, encapsulate(shared, elements[55:]))


def test_the_polynomial_is_the_papers() -> None:
    """T(X) = P^(X^n) * prod t_i^(Delta_i(X)), written down literally."""
    logs = logarithms(bytes(32), 0, 4)
    made = make(logs)
    for x in (1, 5, 6, abscissa(bytes(32))):
        expected = power(BASE_1, x**4)
        for point, weight in zip(made.points, lagrange(range(1, 6), x), strict=True):
            expected = expected + power(point, weight)
        assert made.at(x) == expected == base_1(exponent(logs, x))
    assert make(logs).points == made.points
    assert logs != logarithms(bytes(32), 1, 4)


def test_two_keys_do_not_add_up() -> None:
    """Each has one half of what the event needs; no mixture of their leaves opens it."""
    sent = encapsulate(public(), [A, B])
    first = keygen(master(), both(leaf(A), leaf(C)))
    second = keygen(master(), both(leaf(D), leaf(B)))
    assert not opens(first, sent)
    assert not opens(second, sent)
    wanted = keygen(master(), both(leaf(A), leaf(B)))
    for mixed in (
        (first.leaves[0], second.leaves[1]),
        (first.leaves[0], wanted.leaves[1]),
        (wanted.leaves[0], second.leaves[1]),
    ):
        refuse(replace(wanted, leaves=mixed), sent[1])
    assert opens(wanted, sent)


def test_two_negated_keys_do_not_add_up() -> None:
    sent = event()
    text = 'zone != "West" && {}'
    first, second = key_for(text.format("level == 9")), key_for('zone != "East" && level == 8')
    swapped = first.leaves[:1] + second.leaves[1:2] + first.leaves[2:]
    refuse(first, sent[1])
    refuse(second, sent[1])
    refuse(replace(second, leaves=swapped), sent[1])


def test_other_authorities_and_modes() -> None:
    sent = event()[1]
    stranger = setup(random=SYSTEM_RANDOM)
    refuse(keygen(stranger, Leaf(ANY)), sent)
    # With the labels of this authority, but another y.
    refuse(keygen(replace(stranger, labelling=master().labelling), Leaf(ANY)), sent)
    refuse(keygen(master("polynomial"), Leaf(ANY)), sent)


def test_damaged_points_look_like_any_failure() -> None:
    secret, sent = encapsulate(public(), [A])
    key = keygen(master(), leaf(A))
    bad = replace(sent, components=(replace(sent.components[0], point=bytes(48)),))
    refuse(key, bad)
    with pytest.raises(DecryptionError):
        pairings(key, bad)
    assert decapsulate(key, sent) == secret
    leaf_key = key.leaves[0]
    assert isinstance(leaf_key, PlainLeaf)
    refuse(replace(key, leaves=(replace(leaf_key, d=leaf_key.d + BASE_1),)), sent)
    refuse(replace(key, leaves=(replace(leaf_key, r=leaf_key.r + BASE_2),)), sent)


def test_pinned_randomness_gives_the_same_bytes() -> None:
    def run() -> tuple[bytes, bytes]:
        drawn = SeededRandom(b"vector")
        authority = setup(random=drawn)
        secret, sent = encapsulate(public_key(authority), [A, B], drawn)
        return secret, encode_ciphertext(sent)

    assert run() == run()
    assert encapsulate(public(), [A])[0] != encapsulate(public(), [A])[0]


def test_eight_threads_and_forked_children() -> None:
    key = key_for('zone != "East" && level > 3')

    def round_trip(_: int) -> bytes:
        secret, sent = event()
        assert decapsulate(key, sent) == secret
        return secret

    with ThreadPoolExecutor(8) as pool:
        secrets = list(pool.map(round_trip, range(16)))
    found = [forked(lambda: round_trip(0)) for _ in range(4)]
    # Every child draws its own scalars.
    assert len({*secrets, *found}) == 20
    assert base_2(1) == BASE_2


@pytest.mark.parametrize("mode", MODES)
def test_the_whole_way(mode: KpMode) -> None:
    holds = parse('level > 3 && zone == "West"', SCHEMA)
    assert kpabe_open(holds, EVENT, SCHEMA, b"news", mode=mode, ranges="bits") == b"news"
    fails = parse("level > 12", SCHEMA)
    with pytest.raises(DecryptionError):
        kpabe_open(fails, EVENT, SCHEMA, b"news", mode=mode)


def test_every_negated_leaf_of_a_tree_finds_its_label() -> None:
    """Also the empty string, and the bag of bits."""
    for text, values in (('zone != "a"', {"zone": ""}), ('!(zone endsWith "ab")', {"zone": "xyz"})):
        for ranges in ("dyadic", "bits"):
            expression = parse(text, SCHEMA)
            assert kpabe_open(expression, dict(values), SCHEMA, b"x", ranges=ranges) == b"x"
    plain = encapsulate(public(), elements_of({"level": 3}, SCHEMA))[1]
    assert plain.others == ()


@pytest.mark.parametrize("mode", MODES)
def test_a_large_filter_and_a_large_event(mode: KpMode) -> None:
    """32 attributes, 64 conjunctions, 256 literals; only the last conjunction holds."""
    schema = {f"a{number}": AttributeType("int", 0, 255) for number in range(32)}
    values: dict[str, Value] = {name: 7 * at % 256 for at, name in enumerate(schema)}
    clauses = [
        " && ".join(f"a{(clause + 5 * part) % 32} > {220 + part}" for part in range(4))
        for clause in range(63)
    ]
    clauses.append("a0 == 0 && a1 <= 7 && a2 != 3 && a3 >= 21")
    expression = parse(" || ".join(f"({clause})" for clause in clauses), schema)
    assert kpabe_open(expression, values, schema, b"news", mode=mode) == b"news"
    del values["a3"]
    with pytest.raises(DecryptionError):
        kpabe_open(expression, values, schema, b"news", mode=mode)
