"""Bytes of keys and ciphertexts: versioned, canonical, strictly read.

Every format begins with version (1), kind (1: master, 2: public, 3: filter key,
4: ciphertext) and mode (1: hash, 2: polynomial). Numbers are big-endian. Keys end with a
BLAKE2b sum of 16 bytes over what stands before it: it keeps damage out, not forgers, against
whom keys travel in signed or sealed messages. Then

- master: y (32), s1 (32), seed (32), degree (2), polynomials (4)
- public: h^y (96), s1 (32), degree (2), polynomials (4), their points (48 each)
- filter key: length of the tree (4), tree, indices (32 each) of its threshold gates, leaves
- ciphertext: h^s (96), number of components (4), number of others (4), components of tag (16)
  and point (48), others of tag (16), masked value (32) and point (48), check (32)

A tree, from the root and the left: gates are 2, count (4), terms (4) and the terms; leaves 0,
or 1 when negated, label and value, each behind its length (4) in UTF-8. The leaf of a key is
its label (32), D (48) and R (96), or when negated label (32), v (32), D (48), the other
point (48) and R (96).
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from itertools import pairwise
from typing import Final

from policyengine.abe.group import (
    G1_BYTES,
    G2_BYTES,
    SCALAR_BYTES,
    decode_g1,
    decode_g2,
    decode_scalar,
    encode_g1,
    encode_g2,
    encode_scalar,
)
from policyengine.abe.kp_model import (
    SECRET_BYTES,
    TAG_BYTES,
    Component,
    FilterKey,
    KpCiphertext,
    KpMasterKey,
    KpMode,
    LeafKey,
    NegatedLeaf,
    OtherComponent,
    PlainLeaf,
    PublicKey,
)
from policyengine.abe.kp_polynomial import Polynomial
from policyengine.abe.kp_tree import encode_tree, read_tree
from policyengine.abe.shares import Sharing, plan
from policyengine.attributes.universe import Leaf, leaves
from policyengine.errors import DecodeError, InputError
from policyengine.primitives.reader import ByteReader

VERSION: Final = 1
MAX_COMPONENTS: Final = 65_536
"""Most elements of an event."""
_MASTER, _PUBLIC, _FILTER, _CIPHERTEXT = 1, 2, 3, 4
_MODES: Final[dict[KpMode, int]] = {"hash": 1, "polynomial": 2}
_MODE_OF: Final[dict[int, KpMode]] = {1: "hash", 2: "polynomial"}
_SUM: Final = 16
_SIZES: Final = struct.Struct(">HI")
_COUNTS: Final = struct.Struct(">II")
_CHECK: Final = 32


def encode_master(master: KpMasterKey) -> bytes:
    """Write a master key."""
    return _summed(
        _header(_MASTER, master.mode)
        + encode_scalar(master.secret)
        + master.labelling
        + master.seed
        + _SIZES.pack(master.degree, master.polynomials)
    )


def decode_master(data: bytes) -> KpMasterKey:
    """Read a master key.

    Raises:
        DecodeError: not the canonical bytes of one.
    """
    mode, reader = _opened(_MASTER, _unsummed(data))
    secret = decode_scalar(reader.take(SCALAR_BYTES))
    labelling, seed = reader.take(SECRET_BYTES), reader.take(SECRET_BYTES)
    degree, count = _sizes(mode, reader)
    reader.end()
    if not secret:
        raise DecodeError("the master key is zero")
    return KpMasterKey(mode, secret, labelling, seed, degree, count)


def encode_public(public: PublicKey) -> bytes:
    """Write a public key; its bytes are for publishers and never for brokers."""
    degree = public.polynomials[0].degree if public.polynomials else 0
    return _summed(
        _header(_PUBLIC, public.mode)
        + encode_g2(public.anchor)
        + public.labelling
        + _SIZES.pack(degree, len(public.polynomials))
        + b"".join(encode_g1(point) for each in public.polynomials for point in each.points)
    )


def decode_public(data: bytes) -> PublicKey:
    """Read a public key.

    Raises:
        DecodeError: not the canonical bytes of one.
    """
    mode, reader = _opened(_PUBLIC, _unsummed(data))
    anchor, labelling = decode_g2(reader.take(G2_BYTES)), reader.take(SECRET_BYTES)
    degree, count = _sizes(mode, reader)
    polynomials = tuple(
        Polynomial(tuple(decode_g1(reader.take(G1_BYTES)) for _ in range(degree + 1)))
        for _ in range(count)
    )
    reader.end()
    return PublicKey(mode, anchor, labelling, polynomials)


def encode_filter_key(key: FilterKey) -> bytes:
    """Write a filter's key."""
    tree = encode_tree(key.sharing.tree)
    indices = [encode_scalar(index) for given in key.sharing.indices for index in given]
    return _summed(
        b"".join(
            [
                _header(_FILTER, key.mode),
                len(tree).to_bytes(4, "big"),
                tree,
                *indices,
                *(_leaf_bytes(leaf) for leaf in key.leaves),
            ]
        )
    )


def decode_filter_key(data: bytes) -> FilterKey:
    """Read a filter's key.

    Raises:
        DecodeError: not the canonical bytes of one.
    """
    mode, reader = _opened(_FILTER, _unsummed(data))
    tree = read_tree(reader.take(reader.number(4)))
    try:
        numbered = plan(tree).indices
        indices = tuple(
            tuple(decode_scalar(reader.take(SCALAR_BYTES)) for _ in given) for given in numbered
        )
        sharing = Sharing(tree, indices)
    except InputError as error:
        raise DecodeError("the tree of a key is not well formed") from error
    made = tuple(_read_leaf(mode, leaf, reader) for leaf in leaves(tree))
    reader.end()
    return FilterKey(mode, sharing, made)


def encode_ciphertext(ciphertext: KpCiphertext) -> bytes:
    """Write a ciphertext."""
    return checked_bytes(ciphertext) + ciphertext.check


def checked_bytes(ciphertext: KpCiphertext) -> bytes:
    """Return the bytes of a ciphertext but for its check, which covers them."""
    return b"".join(
        [
            _header(_CIPHERTEXT, ciphertext.mode),
            ciphertext.head,
            _COUNTS.pack(len(ciphertext.components), len(ciphertext.others)),
            *(part for one in ciphertext.components for part in (one.tag, one.point)),
            *(part for one in ciphertext.others for part in (one.tag, one.value, one.point)),
        ]
    )


def decode_ciphertext(data: bytes) -> KpCiphertext:
    """Read a ciphertext.

    Points are read when a key needs them, and `check` covers the others: a broker that hands
    ciphertexts on spends nothing on them.

    Raises:
        DecodeError: not the canonical form of one.
    """
    mode, reader = _opened(_CIPHERTEXT, data)
    head = reader.take(G2_BYTES)
    count, other_count = reader.number(4), reader.number(4)
    if not 1 <= count <= MAX_COMPONENTS or other_count > (count if mode == "hash" else 0):
        raise DecodeError("a ciphertext has a number of components that cannot be")
    components = tuple(
        Component(reader.take(TAG_BYTES), reader.take(G1_BYTES)) for _ in range(count)
    )
    others = tuple(
        OtherComponent(reader.take(TAG_BYTES), reader.take(SCALAR_BYTES), reader.take(G1_BYTES))
        for _ in range(other_count)
    )
    check = reader.take(_CHECK)
    reader.end()
    for tags in ([one.tag for one in components], [one.tag for one in others]):
        if any(first >= second for first, second in pairwise(tags)):
            raise DecodeError("the components are not in the order of their tags")
    return KpCiphertext(mode, head, components, others, check)


def _leaf_bytes(leaf: LeafKey) -> bytes:
    if isinstance(leaf, PlainLeaf):
        return leaf.label + encode_g1(leaf.d) + encode_g2(leaf.r)
    points = encode_g1(leaf.d) + encode_g1(leaf.other) + encode_g2(leaf.r)
    return leaf.label + encode_scalar(leaf.value) + points


def _read_leaf(mode: KpMode, leaf: Leaf, reader: ByteReader) -> LeafKey:
    label = reader.take(SECRET_BYTES)
    if not leaf.negated:
        return PlainLeaf(label, decode_g1(reader.take(G1_BYTES)), decode_g2(reader.take(G2_BYTES)))
    if mode == "polynomial":
        raise DecodeError("a key of mode `polynomial` has no negated leaves")
    return NegatedLeaf(
        label,
        decode_scalar(reader.take(SCALAR_BYTES)),
        decode_g1(reader.take(G1_BYTES)),
        decode_g1(reader.take(G1_BYTES)),
        decode_g2(reader.take(G2_BYTES)),
    )


def _sizes(mode: KpMode, reader: ByteReader) -> tuple[int, int]:
    degree, count = reader.number(2), reader.number(4)
    sane = count <= MAX_COMPONENTS and degree <= MAX_COMPONENTS
    if not sane or (degree > 0, count > 0) != (mode == "polynomial",) * 2:
        raise DecodeError("the number of polynomials does not fit the mode")
    return degree, count


def _header(kind: int, mode: KpMode) -> bytes:
    return bytes((VERSION, kind, _MODES[mode]))


def _opened(kind: int, data: bytes) -> tuple[KpMode, ByteReader]:
    mode = _MODE_OF.get(data[2]) if len(data) > 2 else None
    if mode is None or data[:2] != bytes((VERSION, kind)):
        raise DecodeError("not of this kind and version")
    return mode, ByteReader(data, 3)


def _summed(data: bytes) -> bytes:
    return data + blake2b(data, digest_size=_SUM).digest()


def _unsummed(data: bytes) -> bytes:
    body = data[:-_SUM]
    if _summed(body) != data:
        raise DecodeError("the key is damaged")
    return body
