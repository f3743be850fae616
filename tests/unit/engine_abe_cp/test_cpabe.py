"""Policies on payloads: keys, sheets, what a broker sees, and bytes."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pytest

from policyengine.abe import cp_wire, cpabe, hybrid, kp_tree, kpabe, nested
from policyengine.abe.cp_model import MAX_USES
from policyengine.abe.shares import MAX_DEPTH
from policyengine.attributes import (
    NEVER,
    AttributeType,
    Element,
    Gate,
    Leaf,
    Node,
    access_tree,
    elements_of,
    parse,
    universe,
)
from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.primitives import SeededRandom, prf
from tests.support.forks import forked

SCHEMA = {
    "zone": AttributeType("string"),
    "level": AttributeType("int", 0, 15),
    "on": AttributeType("bool"),
}
VALUES: dict[str, Any] = {"zone": "ab", "level": 9, "on": True}
MASTER = cpabe.setup(uses=2, random=SeededRandom(b"authority"))
PUBLIC = cpabe.public_key(MASTER)
KEY = cpabe.keygen(MASTER, VALUES, SCHEMA, SeededRandom(b"subject"))
OTHER = cpabe.keygen(MASTER, {"zone": "c"}, SCHEMA, SeededRandom(b"other"))
A, B, C = (
    Leaf(Element(label, value)) for label, value in (("on?", "1"), ("zone?", "1"), ("x", "1"))
)


def policy(text: str) -> Node:
    return cpabe.payload_policy(parse(text, SCHEMA), SCHEMA)


def opens(text: str, key: Any = KEY) -> bool:
    secret, ciphertext = cpabe.encapsulate(PUBLIC, policy(text))
    try:
        assert cpabe.decapsulate(key, ciphertext) == secret
    except DecryptionError:
        return False
    return True


def test_a_secret_opens_for_those_who_satisfy_the_policy(capsys: Any) -> None:
    assert opens('zone == "ab" && level > 3')
    assert opens('zone.startsWith("a") && atLeast(2, [on, level < 3, level >= 8, zone == "c"])')
    assert opens("!on || has(zone)")
    assert not opens('zone == "abc"')
    assert not opens("level < 9 || !on")
    assert not opens('zone == "ab"', OTHER)
    assert opens('zone == "c" && !has(level)', OTHER)
    assert not opens("on && !on")
    assert capsys.readouterr() == ("", "")


def test_another_authority_opens_nothing() -> None:
    other = cpabe.setup(uses=2, random=SeededRandom(b"another"))
    _, ciphertext = cpabe.encapsulate(PUBLIC, policy("on"))
    with pytest.raises(DecryptionError):
        cpabe.decapsulate(cpabe.keygen(other, VALUES, SCHEMA), ciphertext)
    same_names = cpabe.keygen(replace(other, naming=MASTER.naming), VALUES, SCHEMA)
    with pytest.raises(DecryptionError):
        cpabe.decapsulate(same_names, ciphertext)


def test_keys_of_two_subjects_cannot_be_put_together() -> None:
    joined = replace(OTHER, parts=tuple(sorted({*OTHER.parts, *KEY.parts}, key=lambda p: p.label)))
    unique = {part.label: part for part in joined.parts}
    joined = replace(joined, parts=tuple(unique[label] for label in sorted(unique)))
    _, ciphertext = cpabe.encapsulate(PUBLIC, policy('zone == "c" && on'))
    for key in (joined, replace(joined, k_0=KEY.k_0, kp=KEY.kp)):
        with pytest.raises(DecryptionError):
            cpabe.decapsulate(key, ciphertext)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('zone != "q"', '`zone != "q"`'),
        ('!(zone == "q")', '`zone != "q"`'),
        ('!zone.startsWith("q")', '`!zone.startsWith("q")`'),
        ('!zone.endsWith("qr")', '`!zone.endsWith("qr")`'),
    ],
)
def test_negated_tests_of_open_strings_are_refused(text: str, shown: str) -> None:
    expression = parse(text, SCHEMA)
    for attempt in (
        lambda: cpabe.payload_policy(expression, SCHEMA),
        lambda: cpabe.encapsulate(PUBLIC, access_tree(expression, SCHEMA)),
        lambda: cpabe.cpabe_open(expression, VALUES, SCHEMA, b""),
    ):
        with pytest.raises(InputError) as caught:
            attempt()
        assert (caught.value.kind, caught.value.where) == ("unsupported", "zone")
        assert shown in caught.value.message


def test_a_repeated_element_needs_uses() -> None:
    twice = Gate(2, (A, Gate(1, (A, C))))
    secret, ciphertext = cpabe.encapsulate(PUBLIC, twice)
    assert cpabe.decapsulate(KEY, ciphertext) == secret
    with pytest.raises(InputError) as caught:
        cpabe.encapsulate(PUBLIC, Gate(3, (A, Gate(1, (A, C)), Gate(1, (A, B)))))
    assert caught.value.kind == "too-large"
    one_use = cpabe._keygen(MASTER, {A.element: 1}, SeededRandom(b"x"))
    hard = Gate(2, (Gate(1, (A, C)), A))
    _, ciphertext = cpabe.encapsulate(PUBLIC, hard)
    with pytest.raises(DecryptionError):
        cpabe.decapsulate(one_use, ciphertext)


def test_a_disjunction_repeats_as_often_as_it_likes() -> None:
    terms = tuple(Gate(2, (A, Leaf(Element(f"x{number}", "1")))) for number in range(5))
    secret, ciphertext = cpabe.encapsulate(PUBLIC, Gate(1, (*terms, Gate(2, (A, B)))))
    assert len(ciphertext.sheets) == 3
    assert cpabe.decapsulate(KEY, ciphertext) == secret
    assert cp_wire.decode_cp_ciphertext(cp_wire.encode_cp_ciphertext(ciphertext)) == ciphertext


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for uses, kind in ((0, "invalid"), (MAX_USES + 1, "too-large")):
        with pytest.raises(InputError) as caught:
            cpabe.setup(uses=uses)
        assert caught.value.kind == kind
    monkeypatch.setattr(cpabe, "MAX_SHEETS", 1)
    with pytest.raises(InputError):
        cpabe.encapsulate(PUBLIC, Gate(1, tuple(Gate(2, (A, B, A)) for _ in range(2))))
    monkeypatch.setattr(cpabe, "MAX_LEAVES", 1)
    with pytest.raises(InputError):
        cpabe.encapsulate(PUBLIC, Gate(2, (A, B)))


@pytest.mark.parametrize("gate", [Gate(0, (A, B)), Gate(3, (A, B)), Gate(1, (A,)), Gate(1, ())])
def test_gates_that_make_no_sense_are_refused(gate: Gate) -> None:
    with pytest.raises(InputError):
        cpabe.encapsulate(PUBLIC, gate)


def test_opening_from_end_to_end() -> None:
    assert cpabe.cpabe_open(parse("on && level < 10", SCHEMA), VALUES, SCHEMA, b"text") == b"text"
    for text in ("!on", "on && !on", 'zone in ["a", "b"]'):
        with pytest.raises(DecryptionError):
            cpabe.cpabe_open(parse(text, SCHEMA), VALUES, SCHEMA, b"text")
    often = " && ".join(f"(on || level == {number})" for number in range(12))
    assert cpabe.cpabe_open(parse(often, SCHEMA), VALUES, SCHEMA, b"") == b""


def test_a_broker_cannot_test_guesses_or_link_ciphertexts() -> None:
    wanted = policy('zone == "ab"')
    tags = []
    for _ in range(2):
        _, ciphertext = cpabe.encapsulate(PUBLIC, wanted)
        (sheet,) = ciphertext.sheets
        assert isinstance(sheet.tree, Leaf)
        tags.append(bytes.fromhex(sheet.tree.element.value))
    assert tags[0] != tags[1]

    def finds(naming: bytes) -> str | None:
        """Guess names, as whoever has a naming key can."""
        for guess in ("a", "b", "ab", "ba"):
            token = next(
                element.token
                for element in elements_of({"zone": guess}, SCHEMA)
                if element.label == "zone=="
            )
            label = prf(naming, "portcullis/cpabe/label/v1", token)
            tag = prf(label, "portcullis/cpabe/tag/v1", ciphertext.salt, size=16)
            if tag == tags[1]:
                return guess
        return None

    assert finds(PUBLIC.naming) == "ab"  # a publisher may
    assert finds(bytes(32)) is None  # a broker has no naming key
    data = cp_wire.encode_cp_ciphertext(ciphertext)
    assert b"zone" not in data
    for part in KEY.parts:
        assert part.label not in data


def test_the_same_random_bytes_give_the_same_ciphertext() -> None:
    made = [cpabe.encapsulate(PUBLIC, policy("on"), SeededRandom(b"s")) for _ in range(2)]
    assert made[0] == made[1]


def _round(number: int) -> bool:
    return opens(f"level >= {number % 16} && on") == (number % 16 <= 9)


def test_threads_and_forked_children() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(_round, range(32)))
    assert all(forked(lambda: [_round(number) for number in range(3)]))
    assert len({forked(lambda: cpabe.encapsulate(PUBLIC, A)[0]) for _ in range(4)}) == 4


FORMATS: list[Any] = [
    (cp_wire.encode_cp_master, cp_wire.decode_cp_master, MASTER),
    (cp_wire.encode_cp_public, cp_wire.decode_cp_public, PUBLIC),
    (
        cp_wire.encode_cp_user,
        cp_wire.decode_cp_user,
        cpabe._keygen(MASTER, {A.element: 2, B.element: 1}, SeededRandom(b"k")),
    ),
    (
        cp_wire.encode_cp_ciphertext,
        cp_wire.decode_cp_ciphertext,
        cpabe.encapsulate(PUBLIC, Gate(2, (A, Gate(2, (A, B, C)))), SeededRandom(b"c"))[1],
    ),
]


@pytest.mark.parametrize(("encode", "decode", "thing"), FORMATS)
def test_bytes_are_canonical_and_strict(encode: Any, decode: Any, thing: Any) -> None:
    data = encode(thing)
    assert decode(data) == thing
    assert encode(decode(data)) == data
    for bad in (
        b"",
        data[:1],
        data[:-1],
        data + b"\0",
        b"\2" + data[1:],
        data[:1] + b"\x09" + data[2:],
    ):
        with pytest.raises(DecodeError):
            decode(bad)
        with pytest.raises(DecodeError):
            decode(summed(bad[:-16]))


def summed(body: bytes) -> bytes:
    return body + blake2b(body, digest_size=16).digest()


def test_what_keys_may_hold() -> None:
    master = cp_wire.encode_cp_master(MASTER)[:-16]
    user = cp_wire.encode_cp_user(FORMATS[2][2])[:-16]
    start = 2 + 3 * 96 + 3 * 48
    size = 4 + 32 + 2 + 2 * 144
    swapped = FORMATS[2][2]
    swapped = replace(swapped, parts=swapped.parts[::-1])
    for body, decode in (
        (master[:2] + bytes(2) + master[4:], cp_wire.decode_cp_master),
        (master[:2] + b"\xff\xff" + master[4:], cp_wire.decode_cp_master),
        (master[:-32] + bytes(32), cp_wire.decode_cp_master),
        (master[:-32] + b"\xff" * 32, cp_wire.decode_cp_master),
        (master[:36] + b"\xc0" + bytes(47) + master[84:], cp_wire.decode_cp_master),
        (cp_wire.encode_cp_user(swapped)[:-16], cp_wire.decode_cp_user),
        (user[:start] + b"\xff\xff\xff\xff" + user[start + 4 :], cp_wire.decode_cp_user),
        (user[: start + 36] + bytes(2) + user[start + 38 :], cp_wire.decode_cp_user),
        (user[: start + size - 48] + bytes(48) + user[start + size :], cp_wire.decode_cp_user),
    ):
        with pytest.raises(DecodeError):
            decode(summed(body))


def test_trees_of_ciphertexts_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = b"\0" + bytes(16)
    gate = b"\1" + (1).to_bytes(4, "big")
    trees = [
        b"\2" + bytes(16),  # no such kind
        b"\1" + (3).to_bytes(4, "big") + (2).to_bytes(4, "big") + leaf * 2,  # 3 of 2
        gate + (1).to_bytes(4, "big") + leaf,  # of one term
        gate + (2**32 - 1).to_bytes(4, "big") + leaf * 2,
        gate + (2).to_bytes(4, "big") + leaf * 3,  # a leaf left over
        (gate + (2).to_bytes(4, "big") + leaf) * (MAX_DEPTH + 1) + leaf,
        b"",
    ]
    for tree in trees:
        data = b"\1\4" + bytes(16) + b"\0\1" + len(tree).to_bytes(4, "big") + tree + bytes(9999)
        with pytest.raises(DecodeError):
            cp_wire.decode_cp_ciphertext(data)
    for count in (0, 0xFFFF):
        with pytest.raises(DecodeError):
            cp_wire.decode_cp_ciphertext(b"\1\4" + bytes(16) + count.to_bytes(2, "big") + bytes(99))
    monkeypatch.setattr(kp_tree, "MAX_LEAVES", 2)
    nested_gates = (gate + (2).to_bytes(4, "big") + leaf) * 2 + leaf
    data = b"\1\4" + bytes(16) + b"\0\1" + len(nested_gates).to_bytes(4, "big") + nested_gates
    with pytest.raises(DecodeError):
        cp_wire.decode_cp_ciphertext(data + bytes(9999))


def test_points_are_checked_when_they_are_used() -> None:
    _, ciphertext = cpabe.encapsulate(PUBLIC, Gate(2, (A, B)))
    (sheet,) = ciphertext.sheets
    identity_1, identity_2 = b"\xc0" + bytes(47), b"\xc0" + bytes(95)
    for point in (bytes(48), b"\xff" * 48, identity_1):
        row = point + sheet.rows[0][48:]
        bad = replace(ciphertext, sheets=(replace(sheet, rows=(row, sheet.rows[1])),))
        with pytest.raises(DecryptionError):
            cpabe.decapsulate(KEY, bad)
    for point in (bytes(96), b"\xff" * 96, identity_2):
        bad = replace(ciphertext, sheets=(replace(sheet, head=point + sheet.head[96:]),))
        with pytest.raises(DecryptionError):
            cpabe.decapsulate(KEY, bad)


def test_hybrid_sealing() -> None:
    secret = bytes(range(32))
    sealed = hybrid.seal(secret, b"payload", b"header", random=SeededRandom(b"n"))
    assert hybrid.open_(secret, sealed, b"header") == b"payload"
    for key, data, header in (
        (bytes(32), sealed, b"header"),
        (secret, sealed, b"heade"),
        (secret, sealed[:-1], b"header"),
    ):
        with pytest.raises(DecryptionError):
            hybrid.open_(key, data, header)
    with pytest.raises(InputError):
        hybrid.seal(b"short", b"", b"")
    with pytest.raises(InputError):
        hybrid.open_(b"short", sealed, b"header")


EVENT_SCHEMA = {"symbol": AttributeType("string"), "price": AttributeType("int", 0, 31)}
FILTERS = kpabe.setup(random=SeededRandom(b"filters"))


def _filter(text: str) -> Any:
    tree = access_tree(parse(text, EVENT_SCHEMA), EVENT_SCHEMA)
    return kpabe.keygen(FILTERS, tree, SeededRandom(b"filter"))


def _nested() -> bytes:
    """The stock quote of paper 001, section 6, with its premium customers."""
    return nested.seal_nested(
        kpabe.public_key(FILTERS),
        PUBLIC,
        elements=elements_of({"symbol": "IBM", "price": 11}, EVENT_SCHEMA),
        policy=policy("on && level >= 5"),
        payload=b"quote",
        header=b"header",
    )


def test_a_reader_needs_the_filter_and_the_attributes() -> None:
    data = _nested()
    fits, other = _filter('symbol == "IBM" && price > 10'), _filter("price > 11")
    assert nested.open_nested(fits, KEY, data, b"header") == b"quote"
    for filter_key, key, header in (
        (other, KEY, b"header"),
        (fits, OTHER, b"header"),
        (other, OTHER, b"header"),
        (fits, KEY, b"headers"),
    ):
        with pytest.raises(DecryptionError):
            nested.open_nested(filter_key, key, data, header)


def test_changed_bytes_of_a_nested_payload_do_not_open() -> None:
    data, fits = _nested(), _filter('symbol == "IBM"')
    changed = [b"", data[:-1], data + b"\0", b"\2" + data[1:]]
    changed += [
        data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        for place in range(0, len(data), max(1, len(data) // 60))
    ]
    for bad in changed:
        with pytest.raises(DecryptionError):
            nested.open_nested(fits, KEY, bad, b"header")


def test_the_element_that_no_subject_has() -> None:
    assert universe.NEVER == NEVER
    _, ciphertext = cpabe.encapsulate(PUBLIC, Leaf(NEVER))
    with pytest.raises(DecryptionError):
        cpabe.decapsulate(KEY, ciphertext)


def test_the_deepest_policy_goes_through() -> None:
    tree: Any = A
    for level in range(MAX_DEPTH):
        one = Leaf(Element(f"x{level}", "1"))
        tree = Gate(2, (B, tree)) if level == 0 else Gate(1, (one, tree))
    secret, ciphertext = cpabe.encapsulate(PUBLIC, Gate(2, (tree.terms[1], A)))
    data = cp_wire.encode_cp_ciphertext(ciphertext)
    assert cpabe.decapsulate(KEY, cp_wire.decode_cp_ciphertext(data)) == secret
    with pytest.raises(InputError) as caught:
        cpabe.encapsulate(PUBLIC, Gate(2, (tree, C)))
    assert caught.value.kind == "too-large"


def test_importing_the_package_does_not_touch_charm() -> None:
    code = "import policyengine.abe, sys; print([n for n in sys.modules if n.startswith('charm')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
