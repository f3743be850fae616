"""Bytes of keys and ciphertexts."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import pytest

from policyengine.abe import (
    KpMode,
    decapsulate,
    decode_ciphertext,
    decode_filter_key,
    decode_master,
    decode_public,
    encapsulate,
    encode_ciphertext,
    encode_filter_key,
    encode_master,
    encode_public,
    keygen,
    public_key,
    setup,
)
from policyengine.abe.kp_tree import encode_tree, read_tree
from policyengine.abe.shares import MAX_DEPTH
from policyengine.attributes import Element, Gate, Leaf, Node
from policyengine.errors import DecodeError, DecryptionError
from tests.unit.engine_abe_kp.samples import (
    MODES,
    A,
    B,
    C,
    D,
    both,
    event,
    filter_tree,
    key_for,
    leaf,
    master,
    opens,
    public,
)

TREE = both(Leaf(A), Gate(2, (leaf(B), leaf(C), leaf(D))))


def resummed(body: bytes) -> bytes:
    return body + blake2b(body, digest_size=16).digest()


@pytest.mark.parametrize("mode", MODES)
def test_everything_goes_there_and_back(mode: KpMode) -> None:
    assert decode_master(encode_master(master(mode))) == master(mode)
    assert decode_public(encode_public(public(mode))) == public(mode)
    key = keygen(master(mode), TREE)
    assert decode_filter_key(encode_filter_key(key)) == key
    sent = event(mode=mode)
    ciphertext = decode_ciphertext(encode_ciphertext(sent[1]))
    assert ciphertext == sent[1]
    text = 'zone == "West"' if mode == "polynomial" else 'zone != "East"'
    assert opens(decode_filter_key(encode_filter_key(key_for(text, mode))), (sent[0], ciphertext))


def small() -> list[tuple[bytes, Callable[[bytes], object]]]:
    tiny = setup("polynomial", elements=1)
    return [
        (encode_master(master()), decode_master),
        (encode_public(public_key(tiny)), decode_public),
        (encode_filter_key(keygen(master(), filter_tree('zone != "x"'))), decode_filter_key),
    ]


def test_a_changed_byte_of_a_key_is_refused() -> None:
    for data, decode in small():
        for at in range(len(data)):
            for change in (0x01, 0x80):
                bad = bytearray(data)
                bad[at] ^= change
                with pytest.raises(DecodeError):
                    decode(bytes(bad))


def test_shorter_and_longer_is_refused() -> None:
    ciphertext = encode_ciphertext(encapsulate(public(), [A])[1])
    for data, decode in [*small(), (ciphertext, decode_ciphertext)]:
        for end in (*range(0, len(data), 7), len(data) - 1):
            with pytest.raises(DecodeError):
                decode(data[:end])
        with pytest.raises(DecodeError):
            decode(data + b"\0")


def test_a_changed_byte_of_a_ciphertext_never_opens() -> None:
    """Also of components that the key does not need."""
    elements = [A, B, Element("zone==", "West"), Element("zone./1", "0")]
    key = keygen(master(), both(leaf(A), Leaf(Element("zone==", "x"), negated=True)))
    secret, ciphertext = encapsulate(public(), elements)
    data = encode_ciphertext(ciphertext)
    assert decapsulate(key, decode_ciphertext(data)) == secret
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 1 << at % 8
        with pytest.raises((DecodeError, DecryptionError)):
            decapsulate(key, decode_ciphertext(bytes(bad)))


def test_formats_are_not_mixed_up() -> None:
    kinds = [decode_master, decode_public, decode_filter_key]
    for data, right in small():
        for decode in [*kinds, decode_ciphertext]:
            if decode is not right:
                with pytest.raises(DecodeError):
                    decode(data)


def test_sums_of_forged_keys_do_not_help() -> None:
    data = encode_master(master())[:-16]
    for body in (
        data[:2] + b"\3" + data[3:],  # no such mode
        data[:3] + bytes(32) + data[35:],  # y is zero
        data[:-6] + b"\0\1" + data[-4:],  # a degree in mode `hash`
        data[:-4] + b"\0\0\0\1",
        data[:2] + b"\2" + data[3:],  # no degree in mode `polynomial`
        data + b"\0",
        b"",
    ):
        with pytest.raises(DecodeError):
            decode_master(resummed(body))
    huge = encode_public(public())[:-22] + b"\xff\xff" + b"\xff" * 4
    with pytest.raises(DecodeError):
        decode_public(resummed(huge[:2] + b"\2" + huge[3:]))


def key_body(mode: bytes, tree: bytes, rest: bytes = b"") -> bytes:
    return resummed(b"\1\3" + mode + len(tree).to_bytes(4, "big") + tree + rest)


@pytest.mark.parametrize(
    "tree",
    [
        b"",
        b"\3",
        b"\2" + bytes(8),
        b"\2\0\0\0\1\0\0\0\1" + encode_tree(leaf(A)),
        b"\2\0\0\0\3\0\0\0\2" + encode_tree(leaf(A)) * 2,
        b"\2\0\0\0\1\xff\xff\xff\xff",
        encode_tree(leaf(A)) + b"\0",
        b"\0\0\0\0\1\xff\0\0\0\0",
        b"\2\0\0\0\2\0\0\0\3" + encode_tree(leaf(A)) * 3,  # and no indices
    ],
)
def test_trees_are_read_strictly(tree: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_filter_key(key_body(b"\1", tree))


def test_indices_are_read_strictly() -> None:
    tree = encode_tree(Gate(2, (leaf(A), leaf(B), leaf(C))))
    twice = b"".join(index.to_bytes(32, "big") for index in (1, 2, 2))
    with pytest.raises(DecodeError, match="well formed"):
        decode_filter_key(key_body(b"\1", tree, twice))


def test_a_polynomial_key_has_no_negated_leaves() -> None:
    data = encode_filter_key(keygen(master(), Leaf(Element("zone==", "x"), negated=True)))
    assert decode_filter_key(resummed(data[:-16])).mode == "hash"
    with pytest.raises(DecodeError, match="negated"):
        decode_filter_key(resummed(data[:2] + b"\2" + data[3:-16]))


def test_large_trees_are_refused() -> None:
    deep: Node = leaf(A)
    for _ in range(MAX_DEPTH):
        deep = both(leaf(B), deep)
    assert encode_tree(read_tree(encode_tree(deep))) == encode_tree(deep)
    with pytest.raises(DecodeError, match="too large"):
        read_tree(encode_tree(both(leaf(B), deep)))
    many = Gate(1, (Gate(1, (leaf(A),) * 40_000),) * 2)
    with pytest.raises(DecodeError, match="too large"):
        read_tree(encode_tree(many))
    most = Gate(1, (Gate(1, (leaf(A),) * 65_536), leaf(A)))
    with pytest.raises(DecodeError, match="too many"):
        read_tree(encode_tree(most))


def test_ciphertexts_are_read_strictly() -> None:
    data = encode_ciphertext(encapsulate(public(), [A, B])[1])
    start, first, second = data[:107], data[107:171], data[171:235]
    assert decode_ciphertext(start + first + second + data[235:])
    for bad in (
        start + second + first + data[235:],
        start + first + first + data[235:],
        data[:99] + bytes(8) + data[107:],  # no component
        data[:99] + b"\0\1\0\1" + data[103:],
        data[:103] + b"\0\0\0\3" + data[107:],  # more labels than elements
        data[:2] + b"\2" + data[3:103] + b"\0\0\0\1" + data[107:],
    ):
        with pytest.raises(DecodeError):
            decode_ciphertext(bad)
