"""What a publisher pays for one event: searchable trapdoors, KP-ABE and sealing (paper 001).

The baseline does the same work element by element in Z_p as the papers write it: a safe
prime of 1024 bits (RFC 2409, group 2), full exponents, no tables, and Python's own `pow`
(GMP's is about ten times as fast, which is to be kept in mind when reading the ratio). There
is no pairing in Z_p, so its part of KP-ABE is the one exponentiation that each element's
component takes. The 600 ms that the paper measured for 20 attributes stand beside it as a
landmark.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Sequence
from hashlib import blake2b

from benchmarks.aims import Aim
from benchmarks.tables import human, seconds, table, times
from policyengine import abe, sde
from policyengine.attributes import AttributeType, Value, elements_of
from policyengine.primitives.aead import seal
from policyengine.primitives.rand import SYSTEM_RANDOM

PRIME = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22"
    "514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6"
    "F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5AE9F24117C4B1FE649286651ECE65381"
    "FFFFFFFFFFFFFFFF",
    16,
)
ORDER = (PRIME - 1) // 2
BASE = 4  # a square, so of order ORDER
PAYLOAD = bytes(1024)


def papers_form(tokens: Sequence[str]) -> list[tuple[int, int, int]]:
    """Make td1, td2 and E_a of each element as sections 5.1 and 5.2 of the paper write them."""
    x1 = secrets.randbelow(ORDER)
    h = pow(BASE, secrets.randbelow(ORDER), PRIME)
    s = secrets.randbelow(ORDER)
    rest = h * pow(BASE, ORDER - x1, PRIME) % PRIME
    made = []
    for token in tokens:
        drawn = blake2b(token.encode()).digest() + blake2b(token.encode(), salt=b"2").digest()
        sigma, r = int.from_bytes(drawn, "big") % ORDER, secrets.randbelow(ORDER)
        first = pow(BASE, (sigma - r) % ORDER, PRIME)
        second = pow(rest, r, PRIME) * pow(BASE, x1 * sigma % ORDER, PRIME) % PRIME
        made.append((first, second, pow(int.from_bytes(drawn, "big") ** 2 % PRIME, s, PRIME)))
    return made


def publishing(counts: Sequence[int], repeat: int) -> list[Aim]:
    """Encrypt events of so many attributes."""
    authority = sde.init(random=SYSTEM_RANDOM)
    key, _ = sde.keygen(authority, "publisher", random=SYSTEM_RANDOM)
    public = abe.public_key(abe.setup())
    rows, ratio = [], 0.0
    for count in counts:
        schema = {
            f"attribute{number}": AttributeType("enum", values=("yes", "no", "open"))
            for number in range(count)
        }
        values: dict[str, Value] = dict.fromkeys(schema, "yes")
        elements = elements_of(values, schema)

        def publish(
            values: dict[str, Value] = values, schema: dict[str, AttributeType] = schema
        ) -> None:
            sde.encrypt_event(key, values, schema, padding=1, random=SYSTEM_RANDOM)
            secret, ciphertext = abe.encapsulate(public, elements_of(values, schema))
            seal(secret, PAYLOAD, aad=abe.encode_ciphertext(ciphertext), random=SYSTEM_RANDOM)

        publish()
        tokens = [element.token for element in elements]
        base = seconds(lambda tokens=tokens: papers_form(tokens), repeat=1)
        taken = seconds(publish, repeat=repeat)
        ratio = base / taken
        rows.append([count, len(elements), human(base), human(taken), times(ratio)])
    table(
        "one event: trapdoors, KP-ABE and 1 KB sealed",
        ["attributes", "elements", "Z_p 1024", "ours", "ratio"],
        rows,
    )
    return [
        Aim(f"publisher's encryption, {counts[-1]} attributes", "the papers' Z_p 1024", 20, ratio)
    ]


def main(argv: Sequence[str]) -> list[Aim]:
    """Run with sizes from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_publishing")
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    options = parser.parse_args(argv)
    return publishing([20] if options.quick else [1, 5, 10, 20], 5 if options.quick else 20)


if __name__ == "__main__":
    main(sys.argv[1:])
