"""An independent reading of the encodings, to hold the golden vectors against.

Imports nothing of the engine: keyed BLAKE2b from the standard library, sets of bit
positions instead of arrays, and the auxiliary filters encoded one by one, as
Definition 6 of the paper has them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any


@dataclass
class Stream:
    """The deterministic random stream: keyed BLAKE2b over a counter."""

    seed: bytes
    counter: int = 0
    left: bytes = field(default=b"")

    def take(self, size: int) -> bytes:
        while len(self.left) < size:
            message = self.counter.to_bytes(8, "big")
            self.left += blake2b(message, key=self.seed, person=b"portcullis-rand").digest()
            self.counter += 1
        taken, self.left = self.left[:size], self.left[size:]
        return taken


def prf(key: bytes, *parts: bytes, size: int) -> bytes:
    message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return blake2b(message, key=key, digest_size=size).digest()


@dataclass
class Reader:
    """Keys and sizes of one vector."""

    key: bytes
    parameters: dict[str, Any]

    def __post_init__(self) -> None:
        p = self.parameters
        self.n, self.m, self.k = p["n"], p["m"], p["k"]
        self.size = (self.m + 7) // 8
        self.form = (
            f'{{"blind_probability":{p["blind_probability"]!r},"encoding":"{p["encoding"]}",'
            f'"k":{self.k},"m":{self.m},"masks":{p["masks"]},"n":{self.n}}}'
        ).encode()

    def _key(self, purpose: bytes) -> bytes:
        return prf(self.key, b"portcullis/anonset/v1", purpose, self.form, size=32)

    def header(self, kind: str) -> bytes:
        bloom = self.parameters["encoding"] == "bloom"
        number = {("subject", True): 1, ("policy", True): 2, ("subject", False): 3}.get(
            (kind, bloom), 4
        )
        p = self.parameters
        return (
            bytes([1, number])
            + self.n.to_bytes(2, "big")
            + self.m.to_bytes(4, "big")
            + self.k.to_bytes(2, "big")
            + bytes([p["masks"]])
        )

    def elements(self, tokens: list[str]) -> list[bytes]:
        found = set()
        for token in tokens:
            found.add(prf(self._key(b"alias"), token.encode(), size=16))
            extra = prf(self._key(b"x"), token.encode(), size=24)
            coin = int.from_bytes(extra[:8], "big")
            if coin < int(self.parameters["blind_probability"] * 2**64):
                found.add(extra[8:])
        return sorted(found)

    def numbers(self, purpose: bytes, message: bytes, count: int) -> list[int]:
        stream, block = b"", 0
        while len(stream) < 4 * count:
            stream += blake2b(message + block.to_bytes(4, "big"), key=self._key(purpose)).digest()
            block += 1
        return as_numbers(stream[: 4 * count])

    def positions(self, element: bytes) -> set[int]:
        return {number % self.m for number in self.numbers(b"position", element, self.k)}

    def drawn(self, stream: bytes) -> set[int]:
        return {number % self.m for number in as_numbers(stream)}

    def filter(self, *members: set[int]) -> bytes:
        bits = set().union(*members)
        return sum(1 << bit for bit in bits).to_bytes(self.size, "little")

    def token(self, element: bytes) -> int:
        stream = blake2b(element + bytes(4), key=self._key(b"position")).digest()
        return int.from_bytes(stream[:8], "big")

    def subject(self, tokens: list[str], random: Stream) -> bytes:
        elements = self.elements(tokens)
        missing = self.n - len(elements)
        if self.parameters["encoding"] == "tokens":
            drawn = random.take(8 * missing)
            padding = [int.from_bytes(drawn[at : at + 8], "big") for at in range(0, len(drawn), 8)]
            every = sorted([*map(self.token, elements), *padding])
            return self.header("subject") + b"".join(one.to_bytes(8, "big") for one in every)
        salt = random.take(16)
        sets = [self.positions(element) for element in elements]
        sets += [self.drawn(random.take(4 * self.k)) for _ in range(missing)]
        keys = self.numbers(b"order", salt, self.n)
        placed = [sets[number] for number in sorted(range(self.n), key=lambda at: (keys[at], at))]
        randoms = [self.drawn(random.take(4 * self.k)) for _ in range(self.n + 1)]
        filters = [self.filter(*placed, randoms[0])]
        for i in range(1, self.n + 1):  # Set_i leaves out w_(n-i+1)
            others = placed[: self.n - i] + placed[self.n - i + 1 :]
            filters.append(self.filter(*others, randoms[i]))
        return self.header("subject") + salt + b"".join(filters)

    def policy(self, tokens: list[str], random: Stream) -> bytes:
        elements = self.elements(tokens)
        if self.parameters["encoding"] == "tokens":
            every = sorted(map(self.token, elements))
            listed = b"".join(one.to_bytes(8, "big") for one in every)
            return self.header("policy") + len(every).to_bytes(2, "big") + listed
        masks = [self.drawn(random.take(4 * self.k)) for _ in range(self.parameters["masks"])]
        sets = [self.positions(element) for element in elements]
        return self.header("policy") + self.filter(*sets, *masks) + self.filter(*masks)

    def match(self, policy: bytes, subject: bytes) -> tuple[bool, list[int]]:
        """Definition 7 word by word, with BF_t in step 2."""
        if self.parameters["encoding"] == "tokens":
            wanted = {policy[at : at + 8] for at in range(13, len(policy), 8)}
            present = [subject[at : at + 8] for at in range(11, len(subject), 8)]
            if not wanted <= set(present):
                return False, []
            return True, [at for at, token in enumerate(present) if token in wanted]
        bf_a = as_int(policy[11 : 11 + self.size])
        bf_a_m = as_int(policy[11 + self.size :])
        filters = [
            as_int(subject[at : at + self.size]) for at in range(27, len(subject), self.size)
        ]
        if bf_a & (bf_a_m | filters[0]) != bf_a:
            return False, []
        b = [1] * self.n
        for i in range(1, self.n + 1):
            if bf_a & (bf_a_m | filters[i]) == bf_a:
                b[self.n - i] = 0  # b_i has its zero at place n - i + 1
        return True, [place for place, bit in enumerate(b) if bit]


def as_numbers(stream: bytes) -> list[int]:
    return [int.from_bytes(stream[at : at + 4], "little") for at in range(0, len(stream), 4)]


def as_int(data: bytes) -> int:
    return int.from_bytes(data, "little")


def tag(key: bytes, token: str) -> bytes:
    return prf(key, b"portcullis/tag/v1", token.encode(), size=16)
