"""Filters: an access tree whose leaves are encrypted (paper 001, section 5.3).

What a broker learns from a filter: the shape of its tree (gates, thresholds, how many
leaves, which of them are negated), nothing of labels and values, and not which leaves are
equal, since each is blinded anew. Matching then tells which leaves hold for which event.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, TypeAlias

from policyengine.attributes import Node, leaves
from policyengine.errors import DecodeError
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.sde.group import draw_scalar
from policyengine.sde.keys import BrokerKey, UserKey
from policyengine.sde.shape import (
    LEAF,
    NEGATED,
    Shape,
    ShapeNode,
    check_shape,
    leaf_count,
    shape_of,
    shuffled,
)
from policyengine.sde.wire import Reader, System, user_field, write

MAX_NODES: Final = 131_072
"""Most nodes of a filter, gates and leaves."""
HASH_BYTES: Final = 32
_COUNT: Final = 4
_GATE_MARK: Final = 2
_HASH_LABEL: Final = b"portcullis sde leaf v1"

UserLeaf: TypeAlias = tuple[bytes, bytes, bytes]
"""g^(r+sigma), its power of x1, H(h^r)."""
StoredLeaf: TypeAlias = tuple[bytes, bytes]
"""c1 = h^(r+sigma) and c2 = H(h^r)."""


@dataclass(frozen=True, slots=True)
class UserFilter:
    """A filter as a subscriber sends it to its broker.

    Args:
        system: which set-up it belongs to.
        user: the subscriber.
        shape: the tree's gates.
        leaves: from left to right.
    """

    system: System
    user: str
    shape: Shape
    leaves: tuple[UserLeaf, ...]

    def encode(self) -> bytes:
        """Write the filter."""
        parts = [part for leaf in self.leaves for part in leaf]
        shape = _shape_fields(self.shape)
        return write("filter", self.system, user_field(self.user), shape, *parts)

    @classmethod
    def decode(cls, data: bytes) -> UserFilter:
        """Read a filter; each element is proven to be in the group.

        Raises:
            DecodeError: the bytes are not canonical.
        """
        reader = Reader(data, "filter")
        user, shape = reader.user(), _read_shape(reader)
        found = tuple(
            (reader.element(), reader.element(), reader.take(HASH_BYTES))
            for _ in range(leaf_count(shape))
        )
        reader.end()
        return cls(reader.system, user, shape, found)


@dataclass(frozen=True, slots=True)
class EncryptedFilter:
    """A filter after the broker's part: it fits the events of every publisher.

    Args:
        system: which set-up it belongs to.
        shape: the tree's gates.
        leaves: from left to right.
    """

    system: System
    shape: Shape
    leaves: tuple[StoredLeaf, ...]

    def encode(self) -> bytes:
        """Write the filter."""
        parts = [part for leaf in self.leaves for part in leaf]
        return write("stored filter", self.system, _shape_fields(self.shape), *parts)

    @classmethod
    def decode(cls, data: bytes) -> EncryptedFilter:
        """Read a filter; each element is proven to be in the group.

        Raises:
            DecodeError: the bytes are not canonical.
        """
        reader = Reader(data, "stored filter")
        shape = _read_shape(reader)
        found = tuple((reader.element(), reader.take(HASH_BYTES)) for _ in range(leaf_count(shape)))
        reader.end()
        return cls(reader.system, shape, found)


@dataclass(frozen=True, slots=True)
class PreparedFilter:
    """What a subscriber has after encryption.

    Args:
        filter: what it sends.
        tree: the same tree in the clear, its terms in the order of the filter's: the
            filter's leaf i hides the i-th of `leaves(tree)`. Stays here.
    """

    filter: UserFilter
    tree: Node


def encrypt_filter(
    key: UserKey, tree: Node, *, random: RandomSource = SYSTEM_RANDOM
) -> PreparedFilter:
    """Encrypt the leaves of an access tree (paper 001, section 5.3, step 3).

    Args:
        key: the subscriber's.
        tree: what `access_tree` made; with the same kind of ranges as the events.
        random: source of the blinding and of the order of terms.
    """
    group = key.system.arithmetic
    mixed = shuffled(tree, random)
    h_to = group.powers_of(group.load(key.public))
    found: list[UserLeaf] = []
    for leaf in leaves(mixed):
        sigma = key.sigma(leaf.element.token)
        blind = draw_scalar(group, random, -sigma)
        first = group.encode(group.generated(blind + sigma))
        second = group.encode(group.generated(key.share * (blind + sigma)))
        found.append((first, second, leaf_hash(group.encode(h_to(blind)))))
    encrypted = UserFilter(key.system, key.user, shape_of(mixed), tuple(found))
    return PreparedFilter(encrypted, mixed)


def reencrypt_filter(key: BrokerKey, encrypted: UserFilter) -> EncryptedFilter:
    """Do the broker's part: c1 = first^x2 * second = h^(r+sigma) (paper 001, 5.3, step 4).

    Args:
        key: the broker's share of the filter's subscriber.
        encrypted: as it came from the subscriber.

    Raises:
        RejectedError: `system` or `user` when the share is not the subscriber's.
        DecryptionError: leaves that no honest subscriber makes.
    """
    key.check_owner(encrypted.system, encrypted.user)
    group = encrypted.system.arithmetic
    found: list[StoredLeaf] = []
    for first, second, hashed in encrypted.leaves:
        raised = group.power(group.load(first), key.share)
        found.append((group.encode(group.product(raised, group.load(second))), hashed))
    return EncryptedFilter(encrypted.system, encrypted.shape, tuple(found))


def leaf_hash(encoded: bytes) -> bytes:
    """Return H of an encoded element."""
    return sha256(_HASH_LABEL + encoded).digest()


def _shape_fields(shape: Shape) -> bytes:
    out = [len(shape).to_bytes(_COUNT, "big")]
    for need, terms in shape:
        if need:
            gate = need.to_bytes(_COUNT, "big") + terms.to_bytes(_COUNT, "big")
            out.append(bytes([_GATE_MARK]) + gate)
        else:
            out.append(bytes([terms]))  # 0 for a leaf, 1 for a negated one
    return b"".join(out)


def _read_shape(reader: Reader) -> Shape:
    count = reader.number(_COUNT)
    if not 0 < count <= MAX_NODES:
        raise DecodeError("the filter has no nodes or too many")
    shape = tuple(_read_node(reader) for _ in range(count))
    check_shape(shape)
    return shape


def _read_node(reader: Reader) -> ShapeNode:
    mark = reader.number(1)
    if mark < _GATE_MARK:
        return (LEAF, NEGATED)[mark]
    if mark > _GATE_MARK:
        raise DecodeError("the filter has a node of no known kind")
    node = ShapeNode(reader.number(_COUNT), reader.number(_COUNT))
    if not node.need:
        raise DecodeError("a gate asks for nothing")
    return node
