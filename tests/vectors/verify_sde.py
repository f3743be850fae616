"""Check the golden vectors of searchable encryption without any of the product's code.

    python tests/vectors/verify_sde.py [FILE]

Everything is written anew: the curve from SEC 2 (in Jacobian coordinates), the residues
with Python's own powers, keyed BLAKE2b, the layouts of the bytes, the elements of an event
and the walk through a tree. Prints one line a group; ends with an AssertionError (or
another one) if a vector differs.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

Vector = dict[str, Any]
Scalar = int
FILE = Path(__file__).with_name("sde.json")
KINDS = {"master": 1, "user": 2, "share": 3, "event": 4, "trapdoors": 5, "filter": 6, "stored": 7}
ANY = ("*", "1")


def joined(*fields: bytes) -> bytes:
    """Length-prefixed fields."""
    return b"".join(len(one).to_bytes(4, "big") + one for one in fields)


@dataclass
class Stream:
    """The deterministic random stream: keyed BLAKE2b over a counter."""

    seed: bytes
    counter: int = 0
    left: bytes = field(default=b"")

    def take(self, size: int) -> bytes:
        """The next bytes."""
        while len(self.left) < size:
            message = self.counter.to_bytes(8, "big")
            self.left += hashlib.blake2b(message, key=self.seed, person=b"portcullis-rand").digest()
            self.counter += 1
        taken, self.left = self.left[:size], self.left[size:]
        return taken


class Curve:
    """secp256k1: y^2 = x^3 + 7 modulo p. Elements are pairs, None is the identity."""

    name: ClassVar = "curve"
    number: ClassVar = 1
    prime: ClassVar = 2**256 - 2**32 - 977
    order: ClassVar = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    scalar_bytes: ClassVar = 32
    element_bytes: ClassVar = 33
    generator: ClassVar = (
        0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
        0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
    )

    def _sum(self, one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
        """The sum of two points in Jacobian coordinates, x = X/Z^2 and y = Y/Z^3."""
        p, (x1, y1, z1), (x2, y2, z2) = self.prime, one, other
        if not z1 or not z2:
            return other if not z1 else one
        u1, u2 = x1 * z2 * z2 % p, x2 * z1 * z1 % p
        s1, s2 = y1 * z2 * z2 * z2 % p, y2 * z1 * z1 * z1 % p
        if u1 == u2:
            return self._twice(one) if s1 == s2 else (1, 1, 0)
        h, r = u2 - u1, s2 - s1
        cube, part = h * h * h % p, u1 * h * h % p
        x = (r * r - cube - 2 * part) % p
        return x, (r * (part - x) - s1 * cube) % p, h * z1 * z2 % p

    def _twice(self, point: tuple[int, int, int]) -> tuple[int, int, int]:
        p, (x, y, z) = self.prime, point
        slope, part = 3 * x * x % p, 4 * x * y * y % p
        new = (slope * slope - 2 * part) % p
        return new, (slope * (part - new) - 8 * y**4) % p, 2 * y * z % p

    def _affine(self, point: tuple[int, int, int]) -> Any:
        x, y, z = point
        if not z:
            return None
        inverse = pow(z, -1, self.prime)
        return x * inverse**2 % self.prime, y * inverse**3 % self.prime

    @lru_cache(maxsize=16)  # noqa: B019 - there is one curve, and it stays
    def _doubles(self, element: Any) -> list[tuple[int, int, int]]:
        found = [(*element, 1)]
        while len(found) < 256:
            found.append(self._twice(found[-1]))
        return found

    def power(self, element: Any, scalar: Scalar) -> Any:
        """element^scalar: the sum of the doubles that its bits name."""
        result, bits = (1, 1, 0), reversed(format(scalar % self.order, "0256b"))
        for bit, double in zip(bits, self._doubles(element), strict=True):
            if bit == "1":
                result = self._sum(result, double)
        return self._affine(result)

    def product(self, one: Any, other: Any) -> Any:
        """The group's operation."""
        return self._affine(self._sum(*((1, 1, 0) if e is None else (*e, 1) for e in (one, other))))

    def inverse(self, element: Any) -> Any:
        """element^-1: the mirror image."""
        return element[0], -element[1] % self.prime

    def encode(self, element: Any) -> bytes:
        """The compressed point; zero bytes for the identity."""
        if element is None:
            return bytes(33)
        return bytes([2 + element[1] % 2]) + element[0].to_bytes(32, "big")

    def decode(self, data: bytes) -> Any:
        """A point, proven to be on the curve."""
        x = int.from_bytes(data[1:], "big")
        square = (x**3 + 7) % self.prime
        y = pow(square, (self.prime + 1) // 4, self.prime)
        assert len(data) == 33
        assert data[0] in (2, 3)
        assert x < self.prime
        assert y * y % self.prime == square
        return x, y if y % 2 == data[0] % 2 else self.prime - y


class Residues:
    """RFC 5114, section 2.1: the subgroup of order q of the residues modulo p."""

    name: ClassVar = "zp1024"
    number: ClassVar = 2
    prime: ClassVar = int(
        "B10B8F96 A080E01D DE92DE5E AE5D54EC 52C99FBC FB06A3C6 9A6A9DCA 52D23B61"
        "6073E286 75A23D18 9838EF1E 2EE652C0 13ECB4AE A9061123 24975C3C D49B83BF"
        "ACCBDD7D 90C4BD70 98488E9C 219A7372 4EFFD6FA E5644738 FAA31A4F F55BCCC0"
        "A151AF5F 0DC8B4BD 45BF37DF 365C1A65 E68CFDA7 6D4DA708 DF1FB2BC 2E4A4371".replace(" ", ""),
        16,
    )
    order: ClassVar = 0xF518AA8781A8DF278ABA4E7D64B7CB9D49462353
    scalar_bytes: ClassVar = 20
    element_bytes: ClassVar = 128
    generator: ClassVar = int(
        "A4D1CBD5 C3FD3412 6765A442 EFB99905 F8104DD2 58AC507F D6406CFF 14266D31"
        "266FEA1E 5C41564B 777E690F 5504F213 160217B4 B01B886A 5E91547F 9E2749F4"
        "D7FBD7D3 B9A92EE1 909D0D22 63F80A76 A6A24C08 7A091F53 1DBF0A01 69B6A28A"
        "D662A4D1 8E73AFA3 2D779D59 18D08BC8 858F4DCE F97C2A24 855E6EEB 22B3B2E5".replace(" ", ""),
        16,
    )

    def power(self, element: Any, scalar: Scalar) -> Any:
        """element^scalar."""
        return pow(element, scalar % self.order, self.prime)

    def product(self, one: Any, other: Any) -> Any:
        """The group's operation."""
        return one * other % self.prime

    def inverse(self, element: Any) -> Any:
        """element^-1, by the order of the subgroup."""
        return pow(element, self.order - 1, self.prime)

    def encode(self, element: Any) -> bytes:
        """128 bytes; zero bytes for the identity."""
        return (element if element != 1 else 0).to_bytes(128, "big")

    def decode(self, data: bytes) -> Any:
        """A residue, proven to be in the subgroup."""
        element = int.from_bytes(data, "big")
        assert len(data) == 128
        assert 1 < element < self.prime
        assert pow(element, self.order, self.prime) == 1
        return element


GROUPS: dict[str, Any] = {"curve": Curve(), "zp1024": Residues()}


@lru_cache(maxsize=4096)
def power(group: Any, element: Any, scalar: Scalar) -> Any:
    """element^scalar, remembered: a changed vector is checked in the same time again."""
    return group.power(element, scalar)


@lru_cache(maxsize=4096)
def decoded(group: Any, data: bytes) -> Any:
    """A checked element, remembered."""
    return group.decode(data)


def check_value(body: bytes) -> bytes:
    """What stands behind the bytes to show damage."""
    return hashlib.sha256(b"portcullis sde bytes v1" + body).digest()[:16]


class Fields:
    """Takes versioned bytes apart: header, fields, check value."""

    def __init__(self, text: str, group: Any, kind: str) -> None:
        data = bytes.fromhex(text)
        self.group, self.left = group, data[19:-16]
        self.system = data[3:19]
        assert data[:3] == bytes([1, KINDS[kind], group.number])
        assert len(data) >= 35
        assert data[-16:] == check_value(data[:-16])

    def take(self, size: int) -> bytes:
        """The next bytes."""
        taken, self.left = self.left[:size], self.left[size:]
        assert len(taken) == size
        return taken

    def number(self, size: int) -> int:
        """The next bytes as a number."""
        return int.from_bytes(self.take(size), "big")

    def name(self) -> str:
        """A user's name behind its length."""
        return self.take(self.number(1)).decode()

    def scalar(self) -> Scalar:
        """A scalar in its range."""
        scalar = self.number(self.group.scalar_bytes)
        assert 0 < scalar < self.group.order
        return scalar

    def element(self) -> Any:
        """An element of the group."""
        return decoded(self.group, self.take(self.group.element_bytes))

    def end(self) -> None:
        """Nothing is left."""
        assert not self.left


@dataclass
class Keys:
    """What one user and the broker hold, read from a vector and found to fit together."""

    group: Any
    system: bytes
    name: str
    h: Any
    own: Scalar
    secret: bytes
    brokers: Scalar

    def of_system(self, fields: Fields) -> Fields:
        """The same fields, of this system."""
        assert fields.system == self.system
        return fields

    def g_to(self, scalar: Scalar) -> Any:
        """g^scalar."""
        return power(self.group, self.group.generator, scalar)

    def h_to(self, scalar: Scalar) -> Any:
        """h^scalar."""
        return power(self.group, self.h, scalar)

    def sigma(self, element: tuple[str, str] | str) -> Scalar:
        """The PRF of an element's token, as a scalar."""
        if not isinstance(element, str):
            label, value = element
            element = f"{len(label)}:{label}{value}"
        message = joined(b"portcullis sde sigma v1", self.group.name.encode(), element.encode())
        return wide(self.group, hashlib.blake2b(message, key=self.secret).digest())


def wide(group: Any, data: bytes) -> Scalar:
    """A scalar from more bytes than it needs."""
    return 1 + int.from_bytes(data, "big") % (group.order - 1)


def drawn(group: Any, stream: Stream, forbidden: int | None = None) -> Scalar:
    """A scalar from the stream, another one than is forbidden."""
    while True:
        scalar = wide(group, stream.take(group.scalar_bytes + 16))
        if forbidden is None or scalar != forbidden % group.order:
            return scalar


def read_keys(vector: Vector, user: str, share: str) -> Keys:
    """The keys of a user and of its broker; x1 + x2 is the exponent of h."""
    group = GROUPS[vector["group"]]
    mine = Fields(user, group, "user")
    name, h, own, secret = mine.name(), mine.element(), mine.scalar(), mine.take(32)
    mine.end()
    brokers = Fields(share, group, "share")
    assert (brokers.system, brokers.name()) == (mine.system, name)
    other = brokers.scalar()
    brokers.end()
    label = joined(b"portcullis sde system v1", group.name.encode(), group.encode(h))
    assert mine.system == hashlib.sha256(label).digest()[:16]
    assert power(group, group.generator, (own + other) % group.order) == h
    return Keys(group, mine.system, name, h, own, secret, other)


def check_keys(vector: Vector) -> None:
    """Init and Keygen, drawn again from the seed."""
    group, stream = GROUPS[vector["group"]], Stream(bytes.fromhex(vector["seed"]))
    exponent, secret = drawn(group, stream), stream.take(32)
    master = Fields(vector["master"], group, "master")
    assert (master.scalar(), master.take(32)) == (exponent, secret)
    master.end()
    assert len(vector["users"]) == 2
    for user in vector["users"]:
        keys = read_keys(vector, user["user"], user["share"])
        own = drawn(group, stream, exponent)
        assert (keys.system, keys.name, keys.secret) == (master.system, user["name"], secret)
        assert keys.h == power(group, group.generator, exponent)
        assert (keys.own, keys.brokers) == (own, (exponent - own) % group.order)


def value_text(value: Any) -> str:
    """A value as the language writes it; no floats stand in these vectors."""
    assert isinstance(value, str | int)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value).lower()


def elements(vector: Vector) -> list[tuple[str, str]]:
    """Everything that is true of an event."""
    found = {ANY}
    for name, declared in vector["schema"].items():
        value = vector["values"].get(name)
        found.add((f"{name}?", "0" if value is None else "1"))
        if value is None:
            continue
        found.add((f"{name}==", value_text(value)))
        if declared["type"] == "int":
            low, high = declared["min"], declared["max"]
            found |= places(name, value - low, high - low, vector["ranges"])
        if declared["type"] == "string":
            for size in range(1, len(value) + 1):
                found |= {(f"{name}^{size}", value[:size]), (f"{name}${size}", value[-size:])}
            found |= places(f"{name}.", len(value), 128, vector["ranges"])
    return sorted(found)


def places(name: str, place: int, last: int, ranges: str) -> set[tuple[str, str]]:
    """The bits of a place on a grid: all beginnings, or one by one."""
    code = format(place, "b").zfill(len(format(last, "b")))
    if ranges == "bits":
        return {(f"{name}#{at}", bit) for at, bit in enumerate(code)}
    return {(f"{name}/{at + 1}", code[: at + 1]) for at in range(len(code))}


def check_event(vector: Vector) -> None:
    """Trapdoors: of the publisher with its blinding drawn again, and of the broker."""
    keys, stream = read_keys(vector, vector["user"], vector["share"]), seeded(vector)
    group, order = keys.group, keys.group.order
    hidden: list[Any] = list(elements(vector))
    missing = -len(hidden) % vector["padding"]
    if missing:
        draws = sorted((stream.take(8), number) for number in range(vector["padding"]))
        hidden += [f"pad {number}" for _, number in draws[:missing]]
    made = []
    for element in hidden:
        sigma = keys.sigma(element)
        blind = drawn(group, stream, sigma)
        first = keys.g_to((sigma - blind) % order)
        # (h g^-x1)^r g^(x1 sigma), as the paper has it
        base = group.product(keys.h, group.inverse(keys.g_to(keys.own)))
        second = group.product(power(group, base, blind), keys.g_to(keys.own * sigma % order))
        made.append((group.encode(first), group.encode(second), element))
    made.sort(key=lambda entry: entry[0])
    assert vector["hidden"] == [None if isinstance(one, str) else list(one) for _, _, one in made]
    sent = keys.of_system(Fields(vector["sent"], group, "event"))
    assert sent.name() == keys.name
    pairs = [(sent.element(), sent.element()) for _ in range(sent.number(4))]
    sent.end()
    assert [(group.encode(one), group.encode(two)) for one, two in pairs] == [
        (one, two) for one, two, _ in made
    ]
    finished = keys.of_system(Fields(vector["finished"], group, "trapdoors"))
    trapdoors = [finished.element() for _ in range(finished.number(4))]
    finished.end()
    for trapdoor, (first, second), (_, _, element) in zip(trapdoors, pairs, made, strict=True):
        assert trapdoor == group.product(power(group, first, keys.brokers), second)
        assert trapdoor == keys.h_to(keys.sigma(element))


def mixed(tree: Vector, stream: Stream) -> Vector:
    """The tree with the terms of each gate in the order that the stream draws."""
    if "terms" not in tree:
        return tree
    draws = [(stream.take(8), at) for at in range(len(tree["terms"]))]
    terms = [mixed(tree["terms"][at], stream) for _, at in sorted(draws, reverse=True)]
    return {"count": tree["count"], "terms": terms}


def in_order(tree: Vector) -> list[Vector]:
    """The leaves from left to right."""
    if "terms" not in tree:
        return [tree]
    return [leaf for term in tree["terms"] for leaf in in_order(term)]


def shape(tree: Vector) -> Any:
    """A tree of gates; of a leaf only whether it is negated."""
    if "terms" not in tree:
        return tree["negated"]
    return tree["count"], [shape(term) for term in tree["terms"]]


def read_shape(fields: Fields) -> Any:
    """The gates of a filter's bytes, in the form of `shape`."""
    nodes = fields.number(4)
    counted = 0

    def node() -> Any:
        nonlocal counted
        counted += 1
        mark = fields.number(1)
        if mark < 2:
            return bool(mark)
        need, terms = fields.number(4), fields.number(4)
        assert (mark, terms >= 2, 1 <= need <= terms) == (2, True, True)
        return need, [node() for _ in range(terms)]

    tree = node()
    assert counted == nodes
    return tree


def count_leaves(tree: Any) -> int:
    """How many leaves a shape has."""
    return sum(map(count_leaves, tree[1])) if isinstance(tree, tuple) else 1


def leaf_hash(group: Any, element: Any) -> bytes:
    """H of an element."""
    return hashlib.sha256(b"portcullis sde leaf v1" + group.encode(element)).digest()


def check_filter(vector: Vector) -> None:
    """Leaves: of the subscriber with its blinding drawn again, and of the broker."""
    keys, stream = read_keys(vector, vector["user"], vector["share"]), seeded(vector)
    group, order = keys.group, keys.group.order
    tree = mixed(vector["tree"], stream)
    assert vector["leaves"] == in_order(tree)
    sent = keys.of_system(Fields(vector["sent"], group, "filter"))
    finished = keys.of_system(Fields(vector["finished"], group, "stored"))
    assert sent.name() == keys.name
    assert read_shape(sent) == read_shape(finished) == shape(tree)
    for leaf in in_order(tree):
        sigma = keys.sigma((leaf["label"], leaf["value"]))
        blind = drawn(group, stream, -sigma)
        first, second, hashed = sent.element(), sent.element(), sent.take(32)
        assert first == keys.g_to((blind + sigma) % order)
        assert second == power(group, first, keys.own)
        assert hashed == leaf_hash(group, keys.h_to(blind))
        c1, c2 = finished.element(), finished.take(32)
        assert c1 == group.product(power(group, first, keys.brokers), second)
        assert c1 == keys.h_to((blind + sigma) % order)
        assert c2 == hashed
    sent.end()
    finished.end()


def holds(tree: Any, there: list[bool]) -> bool:
    """Walk a shape; takes the truth of each leaf from the front of the list."""
    if isinstance(tree, tuple):
        return sum([holds(term, there) for term in tree[1]]) >= tree[0]
    return there.pop(0) != tree


def check_match(vector: Vector) -> None:
    """H(c1/TD) = c2 for each leaf and trapdoor, by bytes alone; then what they hide."""
    group = GROUPS[vector["group"]]
    asked, event = (
        Fields(vector["filter"], group, "stored"),
        Fields(vector["event"], group, "trapdoors"),
    )
    assert asked.system == event.system
    tree = read_shape(asked)
    leaves = [(asked.element(), asked.take(32)) for _ in range(count_leaves(tree))]
    trapdoors = [event.element() for _ in range(event.number(4))]
    asked.end()
    event.end()
    inverses = [group.inverse(trapdoor) for trapdoor in trapdoors]
    found = [
        [leaf, place]
        for leaf, (c1, c2) in enumerate(leaves)
        for place, inverse in enumerate(inverses)
        if leaf_hash(group, group.product(c1, inverse)) == c2
    ]
    assert vector["places"] == found
    hit = {leaf for leaf, _ in found}
    assert vector["holds"] == holds(tree, [leaf in hit for leaf in range(len(leaves))])
    wanted = [[leaf["label"], leaf["value"]] for leaf in vector["leaves"]]
    assert (len(wanted), len(vector["hidden"])) == (len(leaves), len(trapdoors))
    assert found == [
        [leaf, place]
        for leaf, element in enumerate(wanted)
        for place, hidden in enumerate(vector["hidden"])
        if hidden == element
    ]


def seeded(vector: Vector) -> Stream:
    """The stream of a vector's seed."""
    return Stream(bytes.fromhex(vector["seed"]))


CHECKS: dict[str, Callable[[Vector], None]] = {
    "keys": check_keys,
    "events": check_event,
    "filters": check_filter,
    "matches": check_match,
}


def verify(vectors: dict[str, list[Vector]]) -> dict[str, int]:
    """Check every vector; return how many there are in each group."""
    assert set(vectors) == set(CHECKS)
    for group, name in (("filters", "filter"), ("events", "event")):
        finished = {vector["finished"] for vector in vectors[group]}
        assert {vector[name] for vector in vectors["matches"]} <= finished
    for group, items in vectors.items():
        assert items, group
        for vector in items:
            CHECKS[group](vector)
    return {group: len(items) for group, items in vectors.items()}


def main() -> None:
    """Check the file that is named, or the one beside this program."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    for group, count in verify(json.loads(path.read_text(encoding="utf-8"))).items():
        sys.stdout.write(f"{group}: {count} right\n")


if __name__ == "__main__":
    main()
