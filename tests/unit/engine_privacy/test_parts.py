"""Plans and parts: canonical bytes, strict decoding, reassembly, and the two attackers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.primitives import SYSTEM_RANDOM, SeededRandom, digest, dumps, pack
from policyengine.primitives.aead import seal
from policyengine.privacy import (
    Assembly,
    KeySealer,
    Knowledge,
    Part,
    SplitPlan,
    coalitions,
    colluding,
    exposed,
    new_id,
    plan_of,
    plan_split,
    risky_by_class,
    roundtrip,
    split_publication,
    standalone,
    violations,
)

KEY = bytes(range(32))
ID = "0123456789abcdef" * 2
PLAN = plan_of([["b", "a"], ["c"]], ["x", "y"])
VALUES: dict[str, Any] = {"a": 1, "c": "é", "x": True, "y": 1.5}


def parts_of(plan: SplitPlan = PLAN, values: dict[str, Any] = VALUES) -> tuple[Part, ...]:
    return split_publication(plan, values, sealer=KeySealer(KEY), publication=ID)


def test_a_plan_has_one_text() -> None:
    data = b'{"encrypted":["x","y"],"overlays":[["a","b"],["c"]],"version":1}'
    assert PLAN.encode() == data
    assert SplitPlan.decode(data) == PLAN
    assert PLAN.digest == digest(data)
    assert (PLAN.parts, plan_of([]).parts) == (2, 1)
    assert PLAN.attributes == set("abcxy")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"encrypted":[],"overlays":[]}',
        b'{"encrypted":[],"overlays":[],"version":2}',
        b'{"encrypted":[],"overlays":[],"version":true}',
        b'{"encrypted":[],"overlays":{},"version":1}',
        b'{"encrypted":[],"overlays":[["b","a"]],"version":1}',
        b'{"encrypted":[],"overlays":[["a","a"]],"version":1}',
        b'{"encrypted":["a"],"overlays":[["a"]],"version":1}',
        b'{"encrypted":[1],"overlays":[],"version":1}',
        b'{"encrypted":"a","overlays":[],"version":1}',
        b'{"encrypted":[],"overlays":[[""]],"version":1}',
        b'{"encrypted":[],"overlays":[],"version":1} ',
    ],
)
def test_plans_are_read_strictly(data: bytes) -> None:
    with pytest.raises(DecodeError):
        SplitPlan.decode(data)


def test_plans_that_contradict_themselves() -> None:
    for overlays, encrypted, kind in [
        ([["a"], ["a"]], [], "invalid"),
        ([["a"]], ["a"], "invalid"),
        ([["a", "a"]], [], "invalid"),
        ([["\ud800"]], [], "invalid"),
        ([["a" * 201]], [], "too-large"),
        ([[]] * 257, [], "too-large"),
        ([[f"a{n}" for n in range(257)]], [], "too-large"),
    ]:
        with pytest.raises(InputError) as caught:
            plan_of(overlays, encrypted)
        assert caught.value.kind == kind


def test_parts_say_where_they_belong() -> None:
    first, second = parts_of()
    assert (first.publication, first.part, first.parts, first.plan) == (ID, 0, 2, PLAN.digest)
    assert (first.clear, set(first.encrypted)) == ({"a": 1}, {"x", "y"})
    assert (second.part, second.clear, second.encrypted) == (1, {"c": "é"}, {})
    for part in (first, second):
        assert Part.decode(part.encode()) == part
    alone = parts_of(plan_of([], ["x"]), {"x": 1})
    assert [(part.parts, part.clear, set(part.encrypted)) for part in alone] == [(1, {}, {"x"})]
    assert parts_of(PLAN, {})[1] == Part(ID, 1, 2, PLAN.digest)


def test_ciphertexts_say_nothing_of_the_value() -> None:
    random = SeededRandom(b"parts")
    sealer = KeySealer(KEY, random)
    seen = [sealer.seal("x", value, b"") for value in ("", "a", "a", "a" * 28)]
    assert len(set(seen)) == 4
    assert {len(data) for data in seen} == {len(seen[0])}


def part_json(**fields: object) -> bytes:
    good: dict[str, object] = {
        "publication": ID,
        "part": 0,
        "parts": 1,
        "plan": "0" * 64,
        "clear": {},
        "encrypted": {},
    }
    return b"\x01" + dumps({name: value for name, value in (good | fields).items() if value != ""})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02" + part_json()[1:],
        b"\x01[]",
        part_json()[1:],
        part_json() + b" ",
        part_json(clear=""),
        part_json(more=1),
        part_json(publication=1),
        part_json(publication="A" * 32),
        part_json(plan="0" * 63),
        part_json(part=True),
        part_json(parts=1.0),
        part_json(part=1),
        part_json(part=-1),
        part_json(parts=257),
        part_json(clear=[]),
        part_json(clear={"a": None}),
        part_json(encrypted={"a": 1}),
        part_json(encrypted={"a": "AB"}),
        part_json(clear={"a": 1}, encrypted={"a": ""}),
    ],
)
def test_parts_are_read_strictly(data: bytes) -> None:
    assert Part.decode(part_json()) == Part(ID, 0, 1, "0" * 64)
    with pytest.raises(DecodeError):
        Part.decode(data)


@pytest.mark.parametrize(
    ("values", "kind", "where"),
    [
        ({"d": 1}, "unknown", "d"),
        ({"a": None}, "invalid", "a"),
        ({"a": [1]}, "invalid", "a"),
        ({"x": {}}, "invalid", "x"),
        ({"a": 10**100}, "too-large", "a"),
        ({"a": "x" * 65_537}, "too-large", "a"),
    ],
)
def test_what_the_plan_does_not_place_never_travels(
    values: dict[str, Any], kind: str, where: str
) -> None:
    with pytest.raises(InputError) as caught:
        parts_of(PLAN, values)
    assert (caught.value.kind, caught.value.where) == (kind, where)


def test_a_part_has_a_size() -> None:
    names = [f"a{number}" for number in range(130)]
    (part,) = parts_of(plan_of([names]), dict.fromkeys(names, "x" * 65_000))
    with pytest.raises(InputError) as caught:
        part.encode()
    assert caught.value.kind == "too-large"


def test_parts_of_different_plans_or_publications_never_mix() -> None:
    other = plan_of([["a"], ["b", "c"]], ["x", "y"])
    assembly = Assembly(KeySealer(KEY))
    assert assembly.add(parts_of()[0], now=1.0) is None
    assert assembly.add(parts_of(other)[1], now=1.0) is None
    assert assembly.missing(parts_of()[0]) == (1,)
    assert assembly.missing(parts_of(other)[0]) == (0,)
    received = assembly.add(parts_of()[1])
    assert received is not None
    assert (received.publication, received.plan) == (ID, PLAN.digest)
    assert received.values == VALUES
    assert assembly.expire(5.0, max_age=1.0) == (ID,)


def test_an_attribute_in_two_parts_is_refused() -> None:
    assembly = Assembly(KeySealer(KEY))
    assembly.add(Part(ID, 0, 2, PLAN.digest, {"a": 1}))
    with pytest.raises(InputError, match="`a` came in two parts"):
        assembly.add(Part(ID, 1, 2, PLAN.digest, {"a": 2}))


def test_ciphertexts_open_only_where_they_belong() -> None:
    (part,) = parts_of(plan_of([], ["x", "y"]), {"x": 1, "y": 2})
    swapped = {"x": part.encrypted["y"], "y": part.encrypted["x"]}
    elsewhere = "f" * 32
    flipped = {name: data[:-1] + bytes([data[-1] ^ 1]) for name, data in part.encrypted.items()}
    for bad in (
        Part(ID, 0, 1, part.plan, {}, swapped),
        Part(elsewhere, 0, 1, part.plan, {}, part.encrypted),
        Part(ID, 0, 1, "0" * 64, {}, part.encrypted),
        Part(ID, 0, 1, part.plan, {}, flipped),
    ):
        with pytest.raises(DecryptionError):
            Assembly(KeySealer(KEY)).add(bad)
    with pytest.raises(DecryptionError):
        Assembly(KeySealer(bytes(32))).add(part)


@pytest.mark.parametrize("padded", [b"1", b"1\x80x", b"\x80", b"null\x80", b"[1]\x80\0"])
def test_what_was_sealed_otherwise_does_not_open(padded: bytes) -> None:
    bound = pack(b"portcullis/split/v1", b"aad", b"x")
    data = seal(KEY, padded, aad=bound, random=SYSTEM_RANDOM)
    with pytest.raises(DecryptionError):
        KeySealer(KEY).open("x", data, b"aad")


def test_roundtrips() -> None:
    assert roundtrip(PLAN, VALUES, [1, 1, 0, 0]).publication == VALUES
    assert roundtrip(PLAN, VALUES, [0, 0]).missing == (1,)
    assert roundtrip(PLAN, VALUES, []).missing == (0, 1)
    assert roundtrip(plan_of([]), {}, [0]).publication == {}
    for deliver, kind in [([2], "invalid"), ([-1], "invalid"), ([0] * 10_001, "too-large")]:
        with pytest.raises(InputError) as caught:
            roundtrip(PLAN, VALUES, deliver)
        assert (caught.value.kind, caught.value.where) == (kind, "deliver")


# The scenario of paper 004, section 2.1.
LIFEGUARD = {
    "name": "identifying",
    "location": "non-confidential",
    "age": "quasi-identifying",
    "gender": "quasi-identifying",
    "occupation": "quasi-identifying",
}
BATHER: dict[str, Any] = {
    "name": "Alice",
    "location": "43.7,7.26",
    "age": 18,
    "gender": "f",
    "occupation": "student",
}
QUASI = frozenset({"age", "gender", "occupation"})


def test_the_papers_own_plan_against_both_attackers() -> None:
    # {age, gender}, {occupation}, and encrypted with non-confidential ones: case (a), (b)
    plan = plan_of([["location"], ["age", "gender"], ["occupation"]], ["name"])
    parts = parts_of(plan, BATHER)
    assert b"Alice" not in b"".join(part.encode() for part in parts)
    # (I) with (a): non-confidential values, and a ciphertext of the identifying one
    first = standalone(parts, 0)
    assert (first.known, set(first.ciphertexts)) == ({"location": "43.7,7.26"}, {"name"})
    # (I) with (b): one subgroup of the quasi-identifier each
    assert standalone(parts, 1) == Knowledge((1,), {"age": 18, "gender": "f"}, {})
    assert standalone(parts, 2) == Knowledge((2,), {"occupation": "student"}, {})
    # (II): k overlays carry the quasi-identifier, k - 1 of them collude, with overlay 0 as well
    for helper in (1, 2):
        together = colluding(parts, [helper, 0, helper])
        assert together.overlays == (0, helper)
        assert together.known == first.known | standalone(parts, helper).known
        assert exposed(together, risky_by_class(LIFEGUARD)) == ()
    # All of them know the quasi-identifier, and still no name: what section 5 rules out
    everything = colluding(parts, range(3))
    assert exposed(everything, risky_by_class(LIFEGUARD)) == (QUASI,)
    assert "name" not in everything.known


def test_the_planners_plan_of_the_scenario() -> None:
    risky = risky_by_class(LIFEGUARD)
    assert risky == (frozenset({"name"}), QUASI)
    for c in (1, 2):
        planned = plan_split(list(LIFEGUARD), risky, colluding=c, max_overlays=4)
        assert (planned.optimal, planned.plan.encrypted) == (True, {"name"})
        assert len(planned.plan.overlays) == c + 1
        parts = parts_of(planned.plan, BATHER)
        for knowledge in coalitions(parts, c):
            assert exposed(knowledge, risky) == ()
            assert len(QUASI - set(knowledge.known)) >= 1
            assert "name" not in knowledge.known
        assert any(exposed(one, risky) for one in coalitions(parts, c + 1))


def test_attackers_take_whole_publications() -> None:
    parts = parts_of()
    other = split_publication(PLAN, VALUES, sealer=KeySealer(KEY), publication=new_id())
    for bad in ((), parts[:1], parts[::-1], (parts[0], other[1])):
        with pytest.raises(InputError):
            colluding(bad, [0])
    for overlay in (-1, 2):
        with pytest.raises(InputError) as caught:
            standalone(parts, overlay)
        assert caught.value.where == "colluding"
    assert colluding(parts, []) == Knowledge((), {}, {})
    assert [one.overlays for one in coalitions(parts, 5)] == [(0, 1)]
    with pytest.raises(InputError):
        next(coalitions(parts, 0))


def test_violations_name_the_overlays() -> None:
    plan = plan_of([["a", "b"], ["c"], ["d"]], ["x"])
    risky = [["a", "b"], ["a", "x"], ["c", "a"], ["a", "c", "d"]]
    assert [str(one) for one in violations(plan, risky, 1)] == [
        "overlay 0 can see `a`, `b` together"
    ]
    assert [one.overlays for one in violations(plan, risky, 2)] == [(0,), (0, 1)]
    assert "overlays 0 and 1" in str(violations(plan, risky, 2)[1])
    assert len(violations(plan, risky, 10**30)) == 3
    assert violations(plan, risky, 0) == ()
    for bad, c, kind in [([["e"]], 1, "unknown"), ([[]], 1, "invalid"), ([], -1, "invalid")]:
        with pytest.raises(InputError) as caught:
            violations(plan, bad, c)
        assert caught.value.kind == kind


def test_classes_alone_make_risky_sets() -> None:
    assert risky_by_class({"a": "quasi-identifying", "b": "confidential"}) == (frozenset("b"),)
    with pytest.raises(InputError):
        risky_by_class({"a": "secret"})
    for size in itertools.count(2):
        names = [f"q{number}" for number in range(size)]
        assert risky_by_class(dict.fromkeys(names, "quasi-identifying")) == (frozenset(names),)
        if size == 4:
            break
