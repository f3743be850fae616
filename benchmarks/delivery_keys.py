"""What sealing a delivery costs: each for itself, and in a session, at both ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from benchmarks.aims import Aim
from benchmarks.tables import human, table, times
from policyengine.bundles import (
    Delivery,
    OpenedSessions,
    begin_session,
    open_delivery,
    seal_delivery,
    seal_in_session,
)
from policyengine.primitives.hpke import SealingKey, generate_hybrid_key, generate_sealing_key
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import generate_signing_key

ROUNDS = 40
CALLS = 25
HANDLE = "p-reader"


def deliveries() -> Aim:
    """Measure both forms of a delivery of 1 KB, with keys of both kinds."""
    rows, first = [], 0.0
    for name, key in (("X25519", generate_sealing_key()), ("hybrid", generate_hybrid_key())):
        sealing, opening, sizes = _one_kind(key)
        ratio = sum((sealing[0], opening[0])) / sum((sealing[1], opening[1]))
        first = first or ratio
        rows += [
            [f"{name}, {form}", human(sealing[n]), human(opening[n]), f"{sizes[n]:,}"]
            for n, form in enumerate(("each for itself", "in a session"))
        ]
        rows.append([f"{name}, ratio", *(times(a / b) for a, b in (sealing, opening)), ""])
    table("a delivery of 1 KB to one client", ["", "sealed", "opened", "bytes"], rows)
    return Aim("a delivery sealed and opened", "each for itself", 3.0, first)


def _one_kind(key: SealingKey) -> tuple[Sequence[float], Sequence[float], Sequence[int]]:
    """Processor seconds to seal and to open one delivery and its bytes, in each form."""
    delivery = Delivery(
        domain="bench", publication="0" * 32, type="Reading", publisher="p-meter", part=0,
        parts=1, agent="alpha", revision=1, epoch=1, attributes={"text0": "x" * 1_000},
        withheld={},
    )  # fmt: skip
    signing = generate_signing_key()
    held = begin_session(
        "bench", 1, agent="alpha", signing_key=signing, recipient=key.public, handle=HANDLE,
        random=SYSTEM_RANDOM,
    )  # fmt: skip
    opened = OpenedSessions()

    def alone() -> bytes:
        return seal_delivery(delivery, signing_key=signing, recipient=key.public, handle=HANDLE)

    def together() -> bytes:
        return seal_in_session(delivery, held, random=SYSTEM_RANDOM)

    def read(data: bytes) -> None:
        found = open_delivery(
            data, key=key, handle=HANDLE, verify=lambda _: signing.public, sessions=opened
        )
        assert found == delivery

    forms: list[Callable[[], bytes]] = [alone, together]
    messages = [form() for form in forms]
    sealing = _in_turns(forms)
    opening = _in_turns([partial(read, data) for data in messages])
    return sealing, opening, [len(data) for data in messages]


def _in_turns(works: Sequence[Callable[[], object]]) -> list[float]:
    """Processor seconds of each, the median of many rounds in which they take turns."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS):
        for work, each in zip(works, taken, strict=True):
            start = time.process_time()
            for _ in range(CALLS):
                work()
            each.append((time.process_time() - start) / CALLS)
    return [median(each) for each in taken]


if __name__ == "__main__":
    deliveries()
