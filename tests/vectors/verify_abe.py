"""Check the golden vectors of attribute-based encryption without any of the product's code.

    python tests/vectors/verify_abe.py [FILE]

Everything is written anew from the papers and the documented layouts, on the curve in
`bls12_381`: hashing to points and pairings as well. From the seeds every key and ciphertext
is made once more, byte by byte; then keys and ciphertexts are read from their bytes, every
point with the checks of its group, and opened with pairings. Prints one line a group; ends
with an AssertionError if something differs.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b, sha256
from itertools import product as combinations
from pathlib import Path
from typing import Any

if __package__:
    from tests.vectors import bls12_381 as curve
else:
    import bls12_381 as curve

Vector = dict[str, Any]
Row = dict[int, int]
FILE = Path(__file__).with_name("abe.json")
R = curve.ORDER


# What both schemes stand on


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
            self.left += blake2b(message, key=self.seed, person=b"portcullis-rand").digest()
            self.counter += 1
        taken, self.left = self.left[:size], self.left[size:]
        return taken

    def scalar(self) -> int:
        """The next scalar, which is not zero."""
        return not_zero(self.take(48))


@dataclass
class Bytes:
    """Bytes that are read from the front."""

    data: bytes

    def take(self, size: int) -> bytes:
        """The next bytes."""
        assert len(self.data) >= size
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def number(self, size: int) -> int:
        """The next number."""
        return int.from_bytes(self.take(size), "big")

    def points(self, count: int) -> list[curve.Point]:
        """The next points of G1."""
        return [curve.read_1(self.take(48)) for _ in range(count)]

    def others(self, count: int) -> list[curve.Point]:
        """The next points of G2."""
        return [curve.read_2(self.take(96)) for _ in range(count)]


def unb64(text: str) -> bytes:
    """Unpadded URL-safe base64, in its one spelling."""
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert base64.urlsafe_b64encode(data).rstrip(b"=").decode() == text
    return data


def joined(*fields: bytes) -> bytes:
    """Length-prefixed fields."""
    return b"".join(len(one).to_bytes(4, "big") + one for one in fields)


def prf(key: bytes, *parts: bytes, size: int = 32) -> bytes:
    """Keyed BLAKE2b over length-prefixed parts."""
    return blake2b(joined(*parts), key=key, digest_size=size).digest()


def hkdf(key: bytes, info: bytes, size: int) -> bytes:
    """RFC 5869 with SHA-256 and no salt."""
    prk = hmac.new(bytes(32), key, sha256).digest()
    block, out, count = b"", b"", 1
    while len(out) < size:
        block = hmac.new(prk, block + info + bytes([count]), sha256).digest()
        out, count = out + block, count + 1
    return out[:size]


def xor(one: bytes, other: bytes) -> bytes:
    """Exclusive or."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def not_zero(data: bytes) -> int:
    """Pseudo-random bytes as a scalar from 1."""
    return int.from_bytes(data, "big") % (R - 1) + 1


def scalar_bytes(scalar: int) -> bytes:
    """A scalar in 32 bytes."""
    return (scalar % R).to_bytes(32, "big")


def g1(scalar: int) -> curve.Point:
    """A multiple of the generator of G1."""
    return curve.times(curve.BASE_1, scalar % R)


def g2(scalar: int) -> curve.Point:
    """A multiple of the generator of G2."""
    return curve.times(curve.BASE_2, scalar % R)


@lru_cache(maxsize=1024)
def gt(scalar: int) -> bytes:
    """Bytes of a power of the pairing of the generators."""
    return curve.write_full(curve.full_power(base_pairing(), scalar % R))


@lru_cache(maxsize=1)
def base_pairing() -> curve.Full:
    """The pairing of the generators."""
    return curve.product([(curve.BASE_1, curve.BASE_2)])


def token(element: list[str]) -> bytes:
    """An element as one text."""
    label, value = element
    return f"{len(label)}:{label}{value}".encode()


def summed(data: bytes) -> bytes:
    """A key with its sum."""
    return data + blake2b(data, digest_size=16).digest()


def unsummed(data: bytes) -> Bytes:
    """A key without its sum."""
    assert summed(data[:-16]) == data, "the key is damaged"
    return Bytes(data[:-16])


# Trees, as in the file: {"is": element}, {"not": element} or {"count": ..., "terms": [...]}


def leaves(tree: Vector) -> Iterator[Vector]:
    """The leaves from left to right."""
    if "terms" not in tree:
        yield tree
    for term in tree.get("terms", []):
        yield from leaves(term)


def holds(tree: Vector, present: dict[str, str]) -> bool:
    """Whether a tree holds, in plain."""
    if "terms" in tree:
        return bool(sum(holds(term, present) for term in tree["terms"]) >= tree["count"])
    ((kind, (label, value)),) = tree.items()
    return label in present and (present[label] == value) == (kind == "is")


def is_threshold(gate: Vector) -> bool:
    """Neither an OR nor an AND."""
    return bool(1 < gate["count"] < len(gate["terms"]))


def at(coefficients: list[int], place: int) -> int:
    """A polynomial's value."""
    found: int = sum(one * place**power for power, one in enumerate(coefficients))
    return found % R


def shares(tree: Vector, secret: int, stream: Stream) -> list[int]:
    """The shares of the leaves: Shamir's for thresholds, summands for an AND."""
    if "terms" not in tree:
        return [secret]
    terms, count = tree["terms"], tree["count"]
    drawn = [stream.scalar() for _ in range(count - 1)]
    if count == 1:
        parts = [secret] * len(terms)
    elif is_threshold(tree):
        # drawn for the highest power first
        parts = [at([secret, *reversed(drawn)], place) for place in range(1, len(terms) + 1)]
    else:
        marks = [0, *drawn, secret]
        parts = [marks[number + 1] - marks[number] for number in range(len(terms))]
    return [
        share % R
        for term, part in zip(terms, parts, strict=True)
        for share in shares(term, part, stream)
    ]


def chosen(tree: Vector, usable: Iterator[bool]) -> dict[int, int] | None:
    """Coefficients of leaves that suffice, or None; leaves count within the tree."""
    if "terms" not in tree:
        return {0: 1} if next(usable) else None
    met: dict[int, dict[int, int]] = {}
    first = 0
    for place, term in enumerate(tree["terms"], start=1):
        found = chosen(term, usable)
        if found is not None and len(met) < tree["count"]:
            met[place] = {first + number: weight for number, weight in found.items()}
        first += sum(1 for _ in leaves(term))
    if len(met) < tree["count"]:
        return None
    weights = dict.fromkeys(met, 1)
    if is_threshold(tree):
        weights = {place: lagrange(place, list(met)) for place in met}
    return {
        number: weight * weights[place] % R
        for place, found in met.items()
        for number, weight in found.items()
    }


def lagrange(one: int, places: list[int]) -> int:
    """The coefficient of a place, at zero."""
    found = 1
    for other in places:
        if other != one:
            found = found * -other * pow(one - other, -1, R) % R
    return found


def choices(tree: Vector) -> list[dict[int, int]]:
    """All ways to put a secret together that `chosen` finds."""
    count = sum(1 for _ in leaves(tree))
    found: list[dict[int, int]] = []
    for usable in combinations((False, True), repeat=count):
        weights = chosen(tree, iter(usable))
        if weights is not None and weights not in found:
            found.append(weights)
    assert found
    return found


# Key-policy encryption, mode `hash`

LENGTH = re.compile(r"(.*)\.[/#]\d+", re.DOTALL)


def kp(name: str) -> bytes:
    """A purpose."""
    return f"portcullis/kpabe/{name}/v1".encode()


def h(name: str, label: bytes) -> curve.Point:
    """A secret label's point in G1, for a purpose."""
    return curve.hash_1(joined(kp(name), label))


@dataclass
class KpAuthority:
    """An authority whose secrets come from a seed."""

    stream: Stream

    def __post_init__(self) -> None:
        self.y = self.stream.scalar()
        self.s1, self.seed = self.stream.take(32), self.stream.take(32)

    def master(self) -> bytes:
        """Bytes of the master key."""
        return summed(b"\1\1\1" + scalar_bytes(self.y) + self.s1 + self.seed + bytes(6))

    def public(self) -> bytes:
        """Bytes of the public key."""
        return summed(b"\1\2\1" + curve.write_2(g2(self.y)) + self.s1 + bytes(6))

    def sigma(self, element: list[str]) -> bytes:
        """An element's secret label."""
        return prf(self.s1, kp("element"), token(element))

    def name(self, element: list[str]) -> bytes:
        """The secret name of an element's label."""
        return prf(self.s1, kp("label"), element[0].encode())

    def pseudonym(self, element: list[str]) -> int:
        """An element's value as a scalar."""
        parts = [part.encode() for part in element]
        return not_zero(prf(self.s1, kp("value"), *parts, size=64))

    def point(self, leaf: Vector) -> curve.Point:
        """What hides a leaf's share."""
        if "not" in leaf:
            return h("negation/1", self.name(leaf["not"]))
        return h("element", self.sigma(leaf["is"]))

    def filter_key(self, tree: Vector, stream: Stream) -> bytes:
        """Bytes of a filter's key; every way of putting its shares together gives y."""
        parts = shares(tree, self.y, stream)
        for weights in choices(tree):
            assert sum(parts[number] * weight for number, weight in weights.items()) % R == self.y
        form = kp_tree(tree)
        found = [b"\1\3\1", len(form).to_bytes(4, "big"), form]
        found += [scalar_bytes(place) for place in places(tree)]
        for leaf, part in zip(leaves(tree), parts, strict=True):
            found.append(self.leaf_key(leaf, part, stream.scalar()))
        return summed(b"".join(found))

    def leaf_key(self, leaf: Vector, share: int, r: int) -> bytes:
        """D = P^share H^r and R = h^r, and more for a negated leaf."""
        d = curve.write_1(curve.plus(g1(share), curve.times(self.point(leaf), r)))
        if "is" in leaf:
            return self.sigma(leaf["is"]) + d + curve.write_2(g2(r))
        name, v = self.name(leaf["not"]), self.pseudonym(leaf["not"])
        both = curve.plus(curve.times(h("negation/1", name), v), h("negation/2", name))
        other = curve.write_1(curve.times(both, r))
        return name + scalar_bytes(v) + d + other + curve.write_2(g2(r))

    def encapsulated(self, elements: list[list[str]], stream: Stream) -> tuple[bytes, bytes]:
        """The bytes of an event's ciphertext, and its secret."""
        s = stream.scalar()
        head = curve.write_2(g2(s))
        components = []
        for element in elements:
            label = self.sigma(element)
            hidden = curve.write_1(curve.times(h("element", label), s))
            components.append(prf(label, kp("tag"), head, size=16) + hidden)
        others = [self.other(element, head, s) for element in negatable(elements)]
        counts = b"".join(len(some).to_bytes(4, "big") for some in (components, others))
        data = b"\1\4\1" + head + counts + b"".join(sorted(components) + sorted(others))
        secret, check = kp_derived(gt(self.y * s), data)
        return data + check, secret

    def other(self, element: list[str], head: bytes, s: int) -> bytes:
        """The component of an element's label: (H1^x H2)^s and x, which is masked."""
        name, x = self.name(element), self.pseudonym(element)
        both = curve.plus(curve.times(h("negation/1", name), x), h("negation/2", name))
        masked = xor(scalar_bytes(x), prf(name, kp("mask"), head))
        return prf(name, kp("tag"), head, size=16) + masked + curve.write_1(curve.times(both, s))


def kp_derived(element: bytes, data: bytes) -> tuple[bytes, bytes]:
    """The secret, and the check over a ciphertext's other bytes."""
    both = hkdf(element, kp("secret"), 64)
    return both[:32], prf(both[32:], kp("check"), data)


def negatable(elements: list[list[str]]) -> list[list[str]]:
    """What a negated leaf may name: tests of strings, which show the codes of their lengths."""
    matches = [LENGTH.fullmatch(label) for label, _ in elements]
    tests = [re.escape(found[1]) + r"(==|[\^$][1-9]\d*)" for found in matches if found]
    pattern = re.compile("|".join(dict.fromkeys(tests)) or "(?!)")
    return [element for element in elements if pattern.fullmatch(element[0])]


def kp_tree(tree: Vector) -> bytes:
    """Bytes of a filter's tree."""
    if "terms" in tree:
        numbers = b"".join(one.to_bytes(4, "big") for one in (tree["count"], len(tree["terms"])))
        return b"\2" + numbers + b"".join(map(kp_tree, tree["terms"]))
    ((kind, element),) = tree.items()
    return bytes([kind == "not"]) + joined(*(part.encode() for part in element))


def places(tree: Vector) -> Iterator[int]:
    """The indices of all threshold gates' terms."""
    if "terms" in tree:
        if is_threshold(tree):
            yield from range(1, len(tree["terms"]) + 1)
        for term in tree["terms"]:
            yield from places(term)


@dataclass
class KpLeaf:
    """A leaf as it stands in a key."""

    label: bytes
    d: curve.Point
    r: curve.Point
    value: int = 0
    other: curve.Point = None


def kp_leaves(tree: Vector, key: bytes) -> list[KpLeaf]:
    """Read a filter's key, whose tree is known."""
    data = unsummed(key)
    assert data.take(3) == b"\1\3\1"
    assert data.take(data.number(4)) == kp_tree(tree)
    assert [data.number(32) for _ in places(tree)] == list(places(tree))
    found = []
    for leaf in leaves(tree):
        label = data.take(32)
        if "is" in leaf:
            (d,), (r,) = data.points(1), data.others(1)
            found.append(KpLeaf(label, d, r))
        else:
            value, (d, other), (r,) = data.number(32), data.points(2), data.others(1)
            found.append(KpLeaf(label, d, r, value, other))
    assert not data.data
    return found


def check_shares(authority: KpAuthority, tree: Vector, key: bytes, public: bytes) -> None:
    """Without the seed: the pairings of a key give e(P, h^y), however it is put together.

    For each way, e(prod D^c, h) * prod e(H^-c, R) = e(P, h^y). All ways are checked at once,
    each to the power of a number that follows from the key.
    """
    data = unsummed(public)
    assert data.take(3) == b"\1\2\1"
    (anchor,) = data.others(1)
    sums: Counter[int] = Counter()
    powers = 0
    for number, weights in enumerate(choices(tree)):
        power = int.from_bytes(prf(key[-16:], bytes([number]), size=16), "big")
        powers += power
        sums.update({at: weight * power for at, weight in weights.items()})
    made = kp_leaves(tree, key)
    with_base = curve.total(curve.times(leaf.d, sums[at] % R) for at, leaf in enumerate(made))
    pairs = [(with_base, curve.BASE_2), (g1(-powers), anchor)]
    for at, leaf in enumerate(leaves(tree)):
        pairs.append((curve.times(authority.point(leaf), -sums[at] % R), made[at].r))
    assert curve.product(pairs) == curve.ONE


def kp_opened(tree: Vector, key: bytes, ciphertext: bytes) -> bytes | None:
    """Open a ciphertext with a filter's key; None when it does not open."""
    data = Bytes(ciphertext)
    assert data.take(3) == b"\1\4\1"
    head = data.take(96)
    count, other_count = data.number(4), data.number(4)
    components = {data.take(16): data.points(1)[0] for _ in range(count)}
    others = {data.take(16): (data.take(32), data.points(1)[0]) for _ in range(other_count)}
    check = data.take(32)
    assert not data.data
    made = kp_leaves(tree, key)
    factors = [kp_factors(leaf, head, components, others) for leaf in made]
    weights = chosen(tree, iter([found is not None for found in factors]))
    if weights is None:
        return None
    with_head, pairs = [], []
    for number, weight in weights.items():
        found = factors[number]
        assert found is not None
        with_head.append(curve.times(found[0], weight))
        pairs.append((curve.times(found[1], weight), made[number].r))
    element = curve.product([(curve.total(with_head), curve.read_2(head)), *pairs])
    secret, expected = kp_derived(curve.write_full(element), ciphertext[:-32])
    return secret if check == expected else None


def kp_factors(
    leaf: KpLeaf,
    head: bytes,
    components: dict[bytes, curve.Point],
    others: dict[bytes, tuple[bytes, curve.Point]],
) -> tuple[curve.Point, curve.Point] | None:
    """What is paired with h^s and with h^r to give e(P, h)^(s share); None without it."""
    tag = prf(leaf.label, kp("tag"), head, size=16)
    if leaf.other is None:
        return (leaf.d, curve.negative(components[tag])) if tag in components else None
    if tag not in others:
        return None
    masked, u = others[tag]
    x = int.from_bytes(xor(masked, prf(leaf.label, kp("mask"), head)), "big")
    if x == leaf.value:
        return None
    exponent = pow(leaf.value - x, -1, R)
    freed = curve.plus(leaf.d, curve.negative(curve.times(leaf.other, exponent)))
    return freed, curve.times(u, exponent)


def check_kpabe(vector: Vector) -> None:
    """An authority, filters, events, and which of them open."""
    authority = KpAuthority(Stream(unb64(vector["seed"])))
    public = unb64(vector["public"])
    assert authority.master() == unb64(vector["master"])
    assert authority.public() == public
    for one in vector["filters"]:
        assert authority.filter_key(one["tree"], Stream(unb64(one["seed"]))) == unb64(one["key"])
    for one in vector["events"]:
        made = authority.encapsulated(one["elements"], Stream(unb64(one["seed"])))
        assert made == (unb64(one["ciphertext"]), unb64(one["secret"]))
    for one, row in zip(vector["filters"], vector["opens"], strict=True):
        check_shares(authority, one["tree"], unb64(one["key"]), public)
        for event, opens in zip(vector["events"], row, strict=True):
            assert holds(one["tree"], dict(event["elements"])) == opens
            found = kp_opened(one["tree"], unb64(one["key"]), unb64(event["ciphertext"]))
            assert found == (unb64(event["secret"]) if opens else None)


# Ciphertext-policy encryption: FAME, with two for the size of the assumption


def cp(name: str) -> bytes:
    """A purpose."""
    return f"portcullis/cpabe/{name}/v1".encode()


def text_point(text: str) -> curve.Point:
    """The point of G1 that FAME hashes a text to."""
    return curve.hash_1(joined(b"portcullis/charm/hash/v1", b"s" + text.encode()))


def row_name(label: bytes, use: int) -> str:
    """The name of a secret label's row, for one use."""
    return f"E{prf(cp('names'), token(['label', label.hex()])).hex().upper()}N{use}"


def column_name(column: int) -> str:
    """The name of a column, from 0."""
    return f"0{column + 1}"


@dataclass
class CpAuthority:
    """An authority whose secrets come from a seed; `a`, `b`, `k`, g and h are logarithms."""

    stream: Stream
    uses: int

    def __post_init__(self) -> None:
        drawn = [self.stream.scalar() for _ in range(9)]
        self.a, self.b, self.k = drawn[0:4:2], drawn[1:4:2], drawn[4:7]
        self.g, self.h = drawn[7:]
        self.naming = self.stream.take(32)

    def master(self) -> bytes:
        """Bytes of the master key."""
        g_k = b"".join(curve.write_1(g1(self.g * one)) for one in self.k)
        points = curve.write_1(g1(self.g)) + curve.write_2(g2(self.h)) + g_k
        scalars = b"".join(map(scalar_bytes, self.a + self.b))
        return summed(b"\1\1" + self.uses.to_bytes(2, "big") + self.naming + points + scalars)

    def masks(self) -> list[int]:
        """Logarithms of e(g, h)^(k a + k_3)."""
        found = [one * a + self.k[2] for one, a in zip(self.k, self.a, strict=False)]
        return [self.g * self.h * one % R for one in found]

    def public(self) -> bytes:
        """Bytes of the public key."""
        head = b"".join(curve.write_2(g2(self.h * a)) for a in [*self.a, 1])
        masks = b"".join(map(gt, self.masks()))
        return summed(b"\1\2" + self.uses.to_bytes(2, "big") + self.naming + head + masks)

    def label(self, element: list[str]) -> bytes:
        """An element's secret label."""
        return prf(self.naming, cp("label"), token(element))

    def user_key(self, elements: list[list[str]], stream: Stream) -> bytes:
        """Bytes of a subject's key."""
        r = [stream.scalar(), stream.scalar()]
        br = [self.b[0] * r[0], self.b[1] * r[1], sum(r)]
        parts = []
        for label in sorted(map(self.label, elements)):
            parts.append(label + self.uses.to_bytes(2, "big"))
            for use in range(self.uses):
                points = self.key_points(row_name(label, use), br, stream.scalar(), [0, 0, 0])
                parts += map(curve.write_1, points)
        found = [b"\1\3", *(curve.write_2(g2(self.h * one)) for one in br)]
        found += map(curve.write_1, self.key_points("01", br, stream.scalar(), self.k))
        return summed(b"".join([*found, len(elements).to_bytes(4, "big"), *parts]))

    def key_points(self, name: str, br: list[int], sigma: int, k: list[int]) -> list[curve.Point]:
        """Two points g^(k_t + sigma / a_t) prod H(name l t)^(br_l / a_t), and g^(k_3 - sigma)."""
        found = []
        for t, a in enumerate(self.a):
            part = pow(a, -1, R)
            hashed = [
                curve.times(text_point(f"{name}{place}{t}"), one * part % R)
                for place, one in enumerate(br)
            ]
            found.append(curve.total([g1(self.g * (k[t] + sigma * part)), *hashed]))
        return [*found, g1(self.g * (k[2] - sigma))]

    def encapsulated(self, policy: Vector, stream: Stream) -> tuple[bytes, bytes]:
        """The bytes of a payload's ciphertext, and its secret."""
        salt, seed = stream.take(16), stream.take(32)
        trees = sheets(policy, self.uses)
        written = [self.sheet(tree, salt, seed, stream) for tree in trees]
        data = b"\1\4" + salt + len(trees).to_bytes(2, "big") + b"".join(written)
        secret, check = cp_derived(seed, data)
        return data + check, secret

    def sheet(self, tree: Vector, salt: bytes, seed: bytes, stream: Stream) -> bytes:
        """Bytes of one tree's encapsulation of the seed."""
        s = [stream.scalar(), stream.scalar()]
        labels = [self.label(leaf["is"]) for leaf in leaves(tree)]
        tags = [prf(label, cp("tag"), salt, size=16) for label in labels]
        form = cp_tree(tree, iter(tags))
        found = [len(form).to_bytes(4, "big"), form]
        for a, one in zip([*self.a, 1], [*s, sum(s)], strict=True):
            found.append(curve.write_2(g2(self.h * a * one)))
        for label, use, row in zip(labels, uses(labels), span(tree), strict=True):
            found += map(curve.write_1, row_points(row_name(label, use), row, s))
        mask = sum(one * each for one, each in zip(self.masks(), s, strict=True))
        return b"".join([*found, xor(seed, hkdf(gt(mask % R), cp("wrap"), 32))])


def row_points(name: str, row: Row, s: list[int]) -> list[curve.Point]:
    """Three points, one an l: prod over t of (H(name l t) prod H(column l t)^entry)^s_t."""
    found = []
    for place in range(3):
        parts = []
        for t, scalar in enumerate(s):
            hashed = [text_point(f"{name}{place}{t}")]
            for column, entry in row.items():
                point = text_point(f"{column_name(column)}{place}{t}")
                hashed.append(curve.times(point, entry))
            parts.append(curve.times(curve.total(hashed), scalar))
        found.append(curve.total(parts))
    return found


def cp_derived(seed: bytes, data: bytes) -> tuple[bytes, bytes]:
    """The secret, and the check over a ciphertext's other bytes."""
    both = hkdf(seed, cp("secret"), 64)
    return both[:32], prf(both[32:], cp("check"), data)


def uses(labels: list[bytes]) -> list[int]:
    """For each leaf, how often its label stood before."""
    return [labels[:number].count(label) for number, label in enumerate(labels)]


def sheets(policy: Vector, limit: int) -> list[Vector]:
    """The terms of an outermost OR, each in the first tree where no element is too often."""
    terms = policy["terms"] if policy.get("count") == 1 else [policy]
    found: list[list[Vector]] = []
    for term in terms:
        for tree in found:
            asked = Counter(tuple(leaf["is"]) for one in [*tree, term] for leaf in leaves(one))
            if max(asked.values()) <= limit:
                tree.append(term)
                break
        else:
            found.append([term])
    return [tree[0] if len(tree) == 1 else {"count": 1, "terms": tree} for tree in found]


def span(tree: Vector) -> list[Row]:
    """The rows of a tree's span program; what `chosen` finds adds them up to (1, 0, ..., 0).

    A gate's terms share its row as secrets are shared, with new columns for random numbers:
    columns are counted from the root and the left.
    """
    rows: list[Row] = []
    width = 1

    def visit(node: Vector, row: Row) -> None:
        nonlocal width
        if "terms" not in node:
            rows.append({column: entry for column, entry in row.items() if entry})
            return
        terms, count = node["terms"], node["count"]
        new = list(range(width, width + count - 1))
        width += count - 1
        for place, term in enumerate(terms):
            if count == 1:
                part = row
            elif is_threshold(node):
                part = row | {column: (place + 1) ** power for power, column in enumerate(new, 1)}
            else:
                part = dict(row) if place == count - 1 else {}
                part |= {new[place]: 1} if place < count - 1 else {}
                part |= {new[place - 1]: -1} if place else {}
            visit(term, part)

    visit(tree, {0: 1})
    for weights in choices(tree):
        added: Counter[int] = Counter()
        for number, weight in weights.items():
            added.update({column: entry * weight for column, entry in rows[number].items()})
        assert {column: entry % R for column, entry in added.items() if entry % R} == {0: 1}
    return rows


def cp_tree(tree: Vector, tags: Iterator[bytes]) -> bytes:
    """Bytes of a policy's tree."""
    if "terms" not in tree:
        return b"\0" + next(tags)
    numbers = b"".join(one.to_bytes(4, "big") for one in (tree["count"], len(tree["terms"])))
    return b"\1" + numbers + b"".join([cp_tree(term, tags) for term in tree["terms"]])


def read_tree(data: Bytes) -> Vector:
    """A policy's tree; leaves have tags."""
    if data.number(1) == 0:
        return {"is": data.take(16)}
    count, size = data.number(4), data.number(4)
    return {"count": count, "terms": [read_tree(data) for _ in range(size)]}


@dataclass
class CpUser:
    """A subject's key as its bytes have it."""

    key: bytes

    def __post_init__(self) -> None:
        data = unsummed(self.key)
        assert data.take(2) == b"\1\3"
        self.k_0, self.kp = data.others(3), data.points(3)
        self.parts = {}
        for _ in range(data.number(4)):
            label, count = data.take(32), data.number(2)
            self.parts[label] = [data.points(3) for _ in range(count)]
        assert not data.data


def cp_opened(key: bytes, ciphertext: bytes) -> bytes | None:
    """Open a ciphertext with a subject's key; None when it does not open."""
    user, data = CpUser(key), Bytes(ciphertext)
    assert data.take(2) == b"\1\4"
    salt = data.take(16)
    by_tag = {prf(label, cp("tag"), salt, size=16): part for label, part in user.parts.items()}
    seeds = []
    for _ in range(data.number(2)):
        form = Bytes(data.take(data.number(4)))
        tree = read_tree(form)
        assert not form.data
        tags = [leaf["is"] for leaf in leaves(tree)]
        head, rows = data.others(3), [data.points(3) for _ in tags]
        had = [
            by_tag.get(tag, [])[use : use + 1] for tag, use in zip(tags, uses(tags), strict=True)
        ]
        wrapped = data.take(32)
        weights = chosen(tree, iter([bool(points) for points in had]))
        if weights is not None:
            used = [(weight, had[at][0], rows[at]) for at, weight in weights.items()]
            seeds.append(xor(wrapped, hkdf(cp_mask(user, head, used), cp("wrap"), 32)))
    check = data.take(32)
    assert not data.data
    found = {cp_derived(seed, ciphertext[:-32]) for seed in seeds}
    assert len(found) <= 1, "all sheets hide the same"
    return next((secret for secret, expected in found if check == expected), None)


def cp_mask(
    user: CpUser,
    head: list[curve.Point],
    used: list[tuple[int, list[curve.Point], list[curve.Point]]],
) -> bytes:
    """The mask: prod over l of e(kp_l prod K_l^c, C_0l) / e(prod C_l^c, K_0l)."""
    pairs = []
    for place in range(3):
        of_key = curve.total(curve.times(points[place], weight) for weight, points, _ in used)
        of_row = curve.total(curve.times(points[place], weight) for weight, _, points in used)
        pairs.append((curve.plus(user.kp[place], of_key), head[place]))
        pairs.append((curve.negative(of_row), user.k_0[place]))
    return curve.write_full(curve.product(pairs))


def check_cpabe(vector: Vector) -> None:
    """An authority, users, payloads, and which of them open."""
    authority = CpAuthority(Stream(unb64(vector["seed"])), vector["uses"])
    assert authority.master() == unb64(vector["master"])
    assert authority.public() == unb64(vector["public"])
    for one in vector["users"]:
        made = authority.user_key(one["elements"], Stream(unb64(one["seed"])))
        assert made == unb64(one["key"])
    for one in vector["payloads"]:
        opening = authority.encapsulated(one["policy"], Stream(unb64(one["seed"])))
        assert opening == (unb64(one["ciphertext"]), unb64(one["secret"]))
    for one, row in zip(vector["users"], vector["opens"], strict=True):
        for payload, opens in zip(vector["payloads"], row, strict=True):
            assert holds(payload["policy"], dict(one["elements"])) == opens
            found = cp_opened(unb64(one["key"]), unb64(payload["ciphertext"]))
            assert found == (unb64(payload["secret"]) if opens else None)


CHECKS: dict[str, Callable[[Vector], None]] = {"kpabe": check_kpabe, "cpabe": check_cpabe}


def verify(vectors: dict[str, list[Vector]]) -> dict[str, int]:
    """Check every vector; return how many there are in each group."""
    assert set(vectors) == set(CHECKS)
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
