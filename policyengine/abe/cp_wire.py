"""Bytes of ciphertext-policy keys and ciphertexts: versioned, canonical, strictly read.

Every format begins with version (1) and kind (1: master, 2: public, 3: user key,
4: ciphertext). Numbers are big-endian. Keys end with a BLAKE2b sum of 16 bytes over what
stands before it: it keeps damage out, not forgers, against whom keys travel in signed or
sealed messages. Points are 48 (G1) and 96 bytes (G2). Then

- master: uses (2), naming (32), g, h, g_k (3 of G1), A (2 of 32), B (2 of 32)
- public: uses (2), naming (32), h_A (3 of G2), e_gh_kA (2 of 576)
- user key: K_0 (3 of G2), Kp (3 of G1), number of elements (4), each as label (32, ascending),
  number of uses (2), points (3 of G1 a use)
- ciphertext: salt (16), number of sheets (2), sheets, check (32). A sheet is the length of its
  tree (4), the tree, C_0 (3 of G2), for each leaf 3 of G1, the hidden seed (32)

A tree, from the root and the left: gates are 1, count (4), terms (4) and the terms; leaves 0
and a tag (16).

The points of a ciphertext are checked when they are used, not when its bytes are read: most
rows of a policy are never looked at, and the check over all bytes covers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from itertools import pairwise
from typing import Final, TypeVar

from policyengine.abe.charm_group import GT_BYTES, decode_gt, encode_gt
from policyengine.abe.cp_model import (
    MAX_USES,
    SALT_BYTES,
    SECRET_BYTES,
    TAG_BYTES,
    CpCiphertext,
    CpMasterKey,
    CpPublicKey,
    CpUserKey,
    KeyPart,
    Sheet,
)
from policyengine.abe.fame import ASSUMPTION, WIDTH
from policyengine.abe.group import (
    G1,
    G1_BYTES,
    G2,
    G2_BYTES,
    SCALAR_BYTES,
    decode_g1,
    decode_g2,
    decode_scalar,
    encode_g1,
    encode_g2,
    encode_scalar,
)
from policyengine.abe.kp_tree import read_nodes, tree_bytes
from policyengine.abe.shares import plan
from policyengine.attributes.universe import Element, Leaf, leaves
from policyengine.errors import DecodeError, InputError
from policyengine.primitives.reader import ByteReader

VERSION: Final = 1
ROW_BYTES: Final = WIDTH * G1_BYTES
HEAD_BYTES: Final = WIDTH * G2_BYTES
MAX_SHEETS: Final = 4096
"""Most sheets of a ciphertext."""
_MASTER, _PUBLIC, _USER, _CIPHERTEXT = 1, 2, 3, 4
_LEAF, _GATE = 0, 1
_SUM: Final = 16
_CHECK: Final = 32
_Thing = TypeVar("_Thing")


def encode_cp_master(master: CpMasterKey) -> bytes:
    """Write a master key."""
    return _summed(
        _begin(_MASTER)
        + master.uses.to_bytes(2, "big")
        + master.naming
        + encode_g1(master.g)
        + encode_g2(master.h)
        + _joined(encode_g1, master.g_k)
        + _joined(encode_scalar, master.a + master.b)
    )


def decode_cp_master(data: bytes) -> CpMasterKey:
    """Read a master key.

    Raises:
        DecodeError: not the canonical bytes of one.
    """
    reader = _opened(data, _MASTER)
    uses, naming = _uses(reader), reader.take(SECRET_BYTES)
    g, h = decode_g1(reader.take(G1_BYTES)), decode_g2(reader.take(G2_BYTES))
    g_k = _several(reader, WIDTH, G1_BYTES, decode_g1)
    scalars = _several(reader, 2 * ASSUMPTION, SCALAR_BYTES, decode_scalar)
    reader.end()
    if 0 in scalars:
        raise DecodeError("a scalar of a key is not zero")
    return CpMasterKey(g, h, g_k, scalars[:ASSUMPTION], scalars[ASSUMPTION:], naming, uses)


def encode_cp_public(public: CpPublicKey) -> bytes:
    """Write a public key."""
    return _summed(
        _begin(_PUBLIC)
        + public.uses.to_bytes(2, "big")
        + public.naming
        + _joined(encode_g2, public.head)
        + _joined(encode_gt, public.masks)
    )


def decode_cp_public(data: bytes) -> CpPublicKey:
    """Read a public key.

    Raises:
        DecodeError: not the canonical bytes of one.
    """
    reader = _opened(data, _PUBLIC)
    uses, naming = _uses(reader), reader.take(SECRET_BYTES)
    head = _several(reader, WIDTH, G2_BYTES, decode_g2)
    masks = _several(reader, ASSUMPTION, GT_BYTES, decode_gt)
    reader.end()
    return CpPublicKey(head, masks, naming, uses)


def encode_cp_user(key: CpUserKey) -> bytes:
    """Write a subject's key."""
    found = [
        _begin(_USER),
        _joined(encode_g2, key.k_0),
        _joined(encode_g1, key.kp),
        len(key.parts).to_bytes(4, "big"),
    ]
    for part in key.parts:
        found += [part.label, len(part.points).to_bytes(2, "big")]
        found += [_joined(encode_g1, points) for points in part.points]
    return _summed(b"".join(found))


def decode_cp_user(data: bytes) -> CpUserKey:
    """Read a subject's key.

    Raises:
        DecodeError: not the canonical bytes of one.
    """
    reader = _opened(data, _USER)
    k_0 = _several(reader, WIDTH, G2_BYTES, decode_g2)
    kp = _several(reader, WIDTH, G1_BYTES, decode_g1)
    parts = []
    for _ in range(reader.number(4)):
        label, uses = reader.take(SECRET_BYTES), _uses(reader)
        points = [_several(reader, WIDTH, G1_BYTES, decode_g1) for _ in range(uses)]
        parts.append(KeyPart(label, tuple(points)))
    reader.end()
    if any(first.label >= second.label for first, second in pairwise(parts)):
        raise DecodeError("the elements of a key are not in ascending order")
    return CpUserKey(k_0, kp, tuple(parts))


def encode_cp_ciphertext(ciphertext: CpCiphertext) -> bytes:
    """Write a ciphertext."""
    return checked_cp_bytes(ciphertext) + ciphertext.check


def checked_cp_bytes(ciphertext: CpCiphertext) -> bytes:
    """Return what the check is made over: all bytes but the check."""
    found = [_begin(_CIPHERTEXT), ciphertext.salt, len(ciphertext.sheets).to_bytes(2, "big")]
    for sheet in ciphertext.sheets:
        tree = tree_bytes(sheet.tree, _leaf_bytes, gate=_GATE)
        found += [len(tree).to_bytes(4, "big"), tree, sheet.head, *sheet.rows, sheet.wrapped]
    return b"".join(found)


def decode_cp_ciphertext(data: bytes) -> CpCiphertext:
    """Read a ciphertext; its points are checked when it is opened.

    Raises:
        DecodeError: not the canonical bytes of one.
    """
    reader = ByteReader(data)
    _check_begin(reader, _CIPHERTEXT)
    salt, count = reader.take(SALT_BYTES), reader.number(2)
    if not 1 <= count <= MAX_SHEETS:
        raise DecodeError("a ciphertext has one sheet at least")
    sheets = tuple([_sheet(reader) for _ in range(count)])
    check = reader.take(_CHECK)
    reader.end()
    return CpCiphertext(salt, sheets, check)


def points_of_row(row: bytes) -> tuple[G1, ...]:
    """Read the three points of a row.

    Raises:
        DecodeError: not points of G1, or the identity.
    """
    return _several(ByteReader(row), WIDTH, G1_BYTES, decode_g1)


def points_of_head(head: bytes) -> tuple[G2, ...]:
    """Read the three points of a sheet's head.

    Raises:
        DecodeError: not points of G2, or the identity.
    """
    return _several(ByteReader(head), WIDTH, G2_BYTES, decode_g2)


def _sheet(reader: ByteReader) -> Sheet:
    inner = ByteReader(reader.take(reader.number(4)))
    tree = read_nodes(inner, _read_leaf, gate=_GATE)
    inner.end()
    try:
        plan(tree)
    except InputError as error:
        raise DecodeError("the policy has a gate that makes no sense") from error
    head = reader.take(HEAD_BYTES)
    rows = tuple([reader.take(ROW_BYTES) for _ in leaves(tree)])
    return Sheet(tree, head, rows, reader.take(SECRET_BYTES))


def _leaf_bytes(leaf: Leaf) -> bytes:
    return bytes((_LEAF,)) + bytes.fromhex(leaf.element.value)


def _read_leaf(kind: int, reader: ByteReader) -> Leaf | None:
    return tagged_leaf(reader.take(TAG_BYTES)) if kind == _LEAF else None


def tagged_leaf(tag: bytes) -> Leaf:
    """Return the leaf of a ciphertext's tree."""
    return Leaf(Element("", tag.hex()))


def _begin(kind: int) -> bytes:
    return bytes((VERSION, kind))


def _check_begin(reader: ByteReader, kind: int) -> None:
    if reader.take(2) != _begin(kind):
        raise DecodeError("another version or kind")


def _opened(data: bytes, kind: int) -> ByteReader:
    body, given = data[:-_SUM], data[-_SUM:]
    if blake2b(body, digest_size=_SUM).digest() != given:
        raise DecodeError("the key is damaged")
    reader = ByteReader(body)
    _check_begin(reader, kind)
    return reader


def _summed(body: bytes) -> bytes:
    return body + blake2b(body, digest_size=_SUM).digest()


def _uses(reader: ByteReader) -> int:
    uses = reader.number(2)
    if not 1 <= uses <= MAX_USES:
        raise DecodeError("the number of uses is out of range")
    return uses


def _several(
    reader: ByteReader, count: int, size: int, decode: Callable[[bytes], _Thing]
) -> tuple[_Thing, ...]:
    return tuple([decode(reader.take(size)) for _ in range(count)])


def _joined(encode: Callable[[_Thing], bytes], things: Iterable[_Thing]) -> bytes:
    return b"".join([encode(thing) for thing in things])
