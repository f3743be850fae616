"""Check the golden vectors of order-preserving matching without any of the product's code.

    python tests/vectors/verify_ope.py [FILE]

Everything is written anew: HKDF by hand, AES in counter mode from single blocks and a
counter of our own, the random sets number by number, codes of numbers, tokens of texts,
the layouts of the bytes, and matching by comparing bytes. Prints one line a group; ends
with an AssertionError (or another one) if a vector differs.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Vector = dict[str, Any]
FILE = Path(__file__).with_name("ope.json")
SCHEMES = {"sbm1": 1, "sbm2": 2, "plain": 3}
MOST = 2**20
BLOCKS = 64


def joined(*fields: bytes) -> bytes:
    """Length-prefixed fields."""
    return b"".join(len(one).to_bytes(4, "big") + one for one in fields)


def split(data: bytes) -> list[bytes]:
    """The fields of length-prefixed bytes."""
    fields = []
    while data:
        size = int.from_bytes(data[:4], "big")
        assert len(data) >= 4 + size
        fields.append(data[4 : 4 + size])
        data = data[4 + size :]
    return fields


def prf(key: bytes, *parts: str | bytes) -> bytes:
    """Keyed BLAKE2b over length-prefixed parts."""
    message = joined(*(part.encode() if isinstance(part, str) else part for part in parts))
    return hashlib.blake2b(message, key=key, digest_size=32).digest()


def hkdf(key: bytes, info: str) -> bytes:
    """RFC 5869 with SHA-256 and no salt: one block of 32 bytes."""
    extracted = hmac.new(bytes(32), key, hashlib.sha256).digest()
    return hmac.new(extracted, info.encode() + b"\x01", hashlib.sha256).digest()


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


def encrypted_blocks(key: bytes, blocks: bytes) -> bytes:
    """AES-256 of single blocks, each by itself."""
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(blocks)


def key_stream(key: bytes) -> Iterator[int]:
    """AES-256 in counter mode, from the counter 0, as numbers of 64 bits."""
    counter = 0
    while True:
        numbers = range(counter, counter + BLOCKS)
        stream = encrypted_blocks(key, b"".join(one.to_bytes(16, "big") for one in numbers))
        yield from struct.unpack(f">{2 * BLOCKS}Q", stream)
        counter += BLOCKS


@lru_cache(maxsize=4096)
def random_set(key: bytes, size: int, bits: int) -> list[int]:
    """Numbers drawn one by one until so many differ, in ascending order."""
    found: set[int] = set()
    for number in key_stream(key):
        found.add(number // 2 ** (64 - bits))
        if len(found) == size:
            break
    return sorted(found)


def check_table(vector: Vector) -> None:
    """One order-preserving function, whole or by its digest."""
    table = random_set(bytes.fromhex(vector["key"]), vector["size"], vector["bits"])
    assert len(table) == vector["size"]
    if "table" in vector:
        assert table == vector["table"]
    else:
        data = struct.pack(f">{len(table)}Q", *table)
        assert hashlib.sha256(data).hexdigest() == vector["digest"]


@dataclass
class Column:
    """One column: its name and what its attribute is declared to be."""

    name: str
    type: dict[str, Any]
    scheme: str
    key: bytes

    @property
    def kind(self) -> str:
        """The kind of the type."""
        return self.type["type"]

    @property
    def count(self) -> int | None:
        """Number of places of a word or of a number on a grid."""
        if self.kind in ("bool", "enum"):
            return len(self.words())
        low, high = self.type.get("min"), self.type.get("max")
        step = self.type.get("step", 1 if self.kind == "int" else None)
        if self.kind == "string" or None in (low, high, step):
            return None
        return int((decimal(high) - decimal(low)) / decimal(step)) + 1

    @property
    def form(self) -> str:
        """How the points are encrypted."""
        if self.kind == "string":
            return "text"
        return "table" if self.count is not None and self.count <= MOST else "digits"

    def words(self) -> list[Any]:
        """Words in the order of the column: the declared one, or one that a key makes."""
        words = self.type.get("values", [False, True])
        if self.scheme == "plain":
            return words
        key = hkdf(self.key, f"portcullis ope 1 {self.scheme} order")
        return sorted(words, key=lambda word: prf(key, "order", self.name, str(word)))

    def point(self, value: Any) -> int | str:
        """The point of a value."""
        if self.kind == "string":
            return value if self.name[-1] == "^" else "".join(reversed(value))
        if self.kind in ("bool", "enum"):
            return self.words().index(value)
        if self.count is not None:
            place = (decimal(value) - decimal(self.type["min"])) / decimal(self.type.get("step", 1))
            assert place == int(place)
            return int(place)
        if self.kind == "int":
            return value
        (bits,) = struct.unpack(">q", struct.pack(">d", value))
        return 2**63 + bits if bits >= 0 else -bits - 1

    def code(self, point: int) -> str:
        """The code of a number of a large domain."""
        if self.count is not None:
            return format(point, "b").zfill(len(format(self.count - 1, "b")))
        if self.kind == "float":
            return format(point, "b").zfill(64)
        if point < 0:  # every bit of the code of -1 - point is turned over
            return "".join("10"[int(bit)] for bit in self.code(-1 - point))
        digits = format(point, "b") if point else ""
        return "1" + format(len(digits), "b").zfill(9) + digits[1:]

    def digits(self, point: int) -> bytes:
        """The code in whole bytes."""
        code = self.code(point)
        code += "0" * (-len(code) % 8)
        return bytes(int(code[at : at + 8], 2) for at in range(0, len(code), 8))

    def ordered(self, point: Any) -> bytes:
        """Bytes that compare as the points do: SBM-I's ciphertexts, or plain ones."""
        if self.scheme != "sbm1":
            if self.form == "text":
                return point.encode()
            return point.to_bytes(4, "big") if self.form == "table" else self.digits(point)
        key = hkdf(self.key, f"portcullis ope 1 sbm1 {self.form} {self.name}")
        if self.form == "table":
            return random_set(key, self.count, 64)[point].to_bytes(8, "big")
        if self.form == "text":
            return b"".join(tokens(key, point))
        out, digits = b"", self.digits(point)
        for at, digit in enumerate(digits):
            table = random_set(prf(key, "digit", digits[:at]), 256, 32)
            out += table[digit].to_bytes(4, "big")
        return out

    def sealed(self, data: bytes, stream: Stream) -> bytes:
        """What is sent: the bytes themselves, or for SBM-II AES-256-GCM of them."""
        if self.scheme != "sbm2":
            return data
        padded = len(data).to_bytes(4, "big") + data
        padded += bytes(-len(padded) % 32)
        nonce = stream.take(12)
        return b"\x01" + nonce + AESGCM(self._seal_key()).encrypt(nonce, padded, b"\x01")

    def opened(self, data: bytes) -> bytes:
        """The bytes that compare as points do."""
        if self.scheme != "sbm2":
            return data
        assert data[:1] == b"\x01"
        padded = AESGCM(self._seal_key()).decrypt(data[1:13], data[13:], b"\x01")
        return split(padded[: 4 + int.from_bytes(padded[:4], "big")])[0]

    def _seal_key(self) -> bytes:
        return hkdf(self.key, f"portcullis ope 1 sbm2 value {self.name}")


def tokens(key: bytes, text: str) -> Iterator[bytes]:
    """The tokens of a text: a chain of keyed hashes, the first two bits of each 01."""
    state = prf(key, "text")
    for letter in text:
        state = hashlib.blake2b(letter.encode(), key=state, digest_size=32).digest()
        yield bytes([state[0] % 64 + 64]) + state[1:8]


def decimal(number: float) -> Decimal:
    """A number as it is written."""
    return Decimal(repr(number))


def secret(vector: Vector, name: str) -> bytes:
    """The key or the seed, empty where a scheme has none."""
    return bytes.fromhex(vector.get(name, ""))


def columns_of(vector: Vector) -> dict[str, Column]:
    """The columns of a vector's attributes, by name in ascending order."""
    found = {}
    for attribute, declared in vector["schema"].items():
        for end in ("^", "$") if declared["type"] == "string" else ("",):
            name = attribute + end
            found[name] = Column(name, declared, vector["scheme"], secret(vector, "key"))
    return dict(sorted(found.items()))


def check_column(vector: Vector) -> None:
    """Points of one column and their ciphertexts in SBM-I."""
    column = Column(vector["name"], vector["type"], "sbm1", bytes.fromhex(vector["key"]))
    assert column.form == vector["form"]
    for entry in vector["points"]:
        point = column.point(entry["value"])
        assert point == entry["point"]
        assert column.ordered(point).hex() == entry["ciphertext"]
        assert entry.get("code") == (column.code(point) if column.form == "digits" else None)
    assert len({entry["ciphertext"] for entry in vector["points"]}) == len(vector["points"])
    if column.form != "text":  # the bytes compare as the points do; letters have no order
        ordered = sorted(vector["points"], key=lambda entry: entry["point"])
        assert ordered == sorted(vector["points"], key=lambda entry: entry["ciphertext"])


def check_event(vector: Vector) -> None:
    """One encrypted event."""
    stream, fields = Stream(secret(vector, "seed")), []
    for name, column in columns_of(vector).items():
        value = vector["values"][name.rstrip("^$")]
        data = column.ordered(column.point(value))
        fields += [name.encode(), column.sealed(data, stream)]
    head = bytes([1, 1, SCHEMES[vector["scheme"]]])
    assert (head + joined(*fields)).hex() == vector["bytes"]


def check_subscription(vector: Vector) -> None:
    """One encrypted subscription; its intervals stand in ascending order."""
    stream, fields = Stream(secret(vector, "seed")), []
    columns, clear = columns_of(vector), vector["intervals"]
    for name in sorted(clear or {}):
        column, body, passed = columns[name], b"", b""
        for low, high in clear[name]:
            flags, ends = 0, []
            for end, there, opened in ((low, 1, 2), (high, 4, 8)):
                if end is not None:
                    flags |= there | (opened if end["open"] else 0)
                    data = column.ordered(end["point"]) + (b"\xff" if end["after"] else b"")
                    assert data >= passed
                    passed = data
                    ends.append(column.sealed(data, stream))
            body += bytes([flags]) + joined(*ends)
        fields += [name.encode(), body]
    head = bytes([1, 2, SCHEMES[vector["scheme"]], clear is None])
    assert (head + joined(*fields)).hex() == vector["bytes"]


@dataclass
class Ends:
    """An interval as it is read from a subscription's bytes."""

    low: bytes | None
    low_open: bool
    high: bytes | None
    high_open: bool

    def has(self, data: bytes) -> bool:
        """Whether bytes lie inside."""
        if self.low is not None and (data < self.low or (self.low_open and data == self.low)):
            return False
        return self.high is None or data < self.high or (data == self.high and not self.high_open)


def read_event(column_of: Callable[[str], Column], data: bytes) -> dict[str, bytes]:
    """The bytes of an event's points, by column."""
    fields = split(data[3:])
    names = [name.decode() for name in fields[::2]]
    assert names == sorted(set(names))
    pairs = zip(names, fields[1::2], strict=True)
    return {name: column_of(name).opened(value) for name, value in pairs}


def read_subscription(
    column_of: Callable[[str], Column], data: bytes
) -> dict[str, list[Ends]] | None:
    """The intervals of a subscription, by column; None when it never matches."""
    if data[3]:
        assert data[3:] == b"\x01"
        return None
    fields, found = split(data[4:]), {}
    for name, body in zip(fields[::2], fields[1::2], strict=True):
        column, left, ends = column_of(name.decode()), body, []
        while left:
            flags, left, pair = left[0], left[1:], []
            assert flags < 16
            for there in (1, 4):
                end = None
                if flags & there:
                    size = 4 + int.from_bytes(left[:4], "big")
                    end, left = column.opened(split(left[:size])[0]), left[size:]
                pair.append(end)
            ends.append(Ends(pair[0], bool(flags & 2), pair[1], bool(flags & 8)))
        found[name.decode()] = ends
    return found


COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda value, wanted: value == wanted,
    "!=": lambda value, wanted: value != wanted,
    "<": lambda value, wanted: value < wanted,
    "<=": lambda value, wanted: value <= wanted,
    ">": lambda value, wanted: value > wanted,
    ">=": lambda value, wanted: value >= wanted,
    "in": lambda value, wanted: value in wanted,
    "startsWith": lambda value, wanted: value[: len(wanted)] == wanted,
    "endsWith": lambda value, wanted: value[len(value) - len(wanted) :] == wanted,
    "has": lambda value, wanted: True,
}


def in_clear(tests: list[Any], values: dict[str, Any]) -> bool:
    """Whether all tests hold; none does of an attribute that is not there."""
    return all(name in values and COMPARED[op](values[name], wanted) for name, op, wanted in tests)


def check_match(vector: Vector) -> None:
    """Matching by the bytes alone says what the tests say of the values."""
    key, scheme = secret(vector, "key"), vector["scheme"]

    def column_of(name: str) -> Column:
        return Column(name, {}, scheme, key)

    subscriptions = {}
    for one in vector["subscriptions"]:
        data = bytes.fromhex(one["bytes"])
        assert data[:3] == bytes([1, 2, SCHEMES[scheme]])
        subscriptions[one["name"]] = read_subscription(column_of, data)
    tests = {one["name"]: one["tests"] for one in vector["subscriptions"]}
    for event in vector["events"]:
        data = bytes.fromhex(event["bytes"])
        assert data[:3] == bytes([1, 1, SCHEMES[scheme]])
        points = read_event(column_of, data)
        found = sorted(
            name
            for name, asked in subscriptions.items()
            if asked is not None
            and all(
                column in points and any(one.has(points[column]) for one in ends)
                for column, ends in asked.items()
            )
        )
        assert found == event["names"]
        assert found == sorted(name for name in tests if in_clear(tests[name], event["values"]))


CHECKS: dict[str, Callable[[Vector], None]] = {
    "tables": check_table,
    "columns": check_column,
    "events": check_event,
    "subscriptions": check_subscription,
    "matches": check_match,
}


def verify(vectors: dict[str, list[Vector]]) -> dict[str, int]:
    """Check every vector; return how many there are in each group."""
    assert set(vectors) == set(CHECKS)
    for group in ("events", "subscriptions"):
        made = {vector["bytes"] for vector in vectors[group]}
        matched = {one["bytes"] for vector in vectors["matches"] for one in vector[group]}
        assert matched == made
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
