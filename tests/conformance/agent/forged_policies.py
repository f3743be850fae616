"""Bundles that are signed as they should be, and whose content or form no honest signer makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from policyengine.primitives.canonical import b64, unb64
from tests.conformance.agent import texts
from tests.conformance.agent.forged_bundles import EPOCHS, KEYS
from tests.conformance.agent.hostile import Forgery
from tests.conformance.agent.world import EVE

FILTERS = 11
"""Bytes of an encoding's header, before its filters."""


def _epoch(change: Callable[[dict[str, Any]], object]) -> Forgery:
    return Forgery(
        "encodings",
        "malformed",
        lambda one: one.edited(EPOCHS, lambda part: change(part["epochs"][0])),
    )


def _rule(change: Callable[[bytes], bytes]) -> Forgery:
    def all_rules(epoch: dict[str, Any]) -> None:
        for rule in epoch["rules"]:
            rule["encoded"] = b64(change(unb64(rule["encoded"])))

    return _epoch(all_rules)


def _subject(change: Callable[[bytes], bytes]) -> Forgery:
    def of_eve(epoch: dict[str, Any]) -> None:
        for subject in epoch["subjects"]:
            if subject["handle"] == EVE:
                subject["encoded"] = [b64(change(unb64(one))) for one in subject["encoded"]]

    return _epoch(of_eve)


def _parameter(name: str, value: object) -> Forgery:
    return _epoch(lambda epoch: epoch["parameters"].update({name: value}))


def _filled(data: bytes, at: int, *whole: int) -> bytes:
    """Filters from a place on, the same bits in each; none beyond a filter's size."""
    bits = int.from_bytes(data[4:8], "big")
    size = (bits + 7) // 8
    ones = (1 << bits) - 1
    made = [(each & ones).to_bytes(size, "little") for each in whole]
    count = (len(data) - at) // size
    return data[:at] + b"".join((made * count)[:count])


def _pair(data: bytes) -> tuple[int, int]:
    """The bits of a policy: attributes, mask."""
    half = FILTERS + (len(data) - FILTERS) // 2
    return int.from_bytes(data[FILTERS:half], "little"), int.from_bytes(data[half:], "little")


def _stray(data: bytes) -> bytes:
    attributes, mask = _pair(data)
    lacking = next(n for n in range(10_000) if not attributes >> n & 1)
    fewer = mask & (mask - 1)
    return _filled(data, FILTERS, attributes, fewer | 1 << lacking)


def _spoiled(data: bytes) -> bytes:
    """Other bytes, whatever the last one was."""
    return data[:-1] + bytes([data[-1] ^ 1])


ALL_ONES = (1 << 2**16) - 1
THREE_OF_FOUR = int.from_bytes(b"\x77" * 2**13, "little")
ENCODINGS = {
    "policies of ones": _rule(lambda data: _filled(data, FILTERS, ALL_ONES)),
    "masks of ones": _rule(lambda data: _filled(data, FILTERS, _pair(data)[0], ALL_ONES)),
    "policies of ones under honest masks": _rule(
        lambda data: _filled(data, FILTERS, ALL_ONES, _pair(data)[1])
    ),
    "policies fuller than elements can make them": _rule(
        lambda data: _filled(data, FILTERS, THREE_OF_FOUR | _pair(data)[0], _pair(data)[1])
    ),
    "masks that are no part of their policies": _rule(_stray),
    "policies with bits beyond their size": _rule(lambda data: data[:-1] + b"\xff"),
    "a client of ones": _subject(lambda data: _filled(data, FILTERS + 16, ALL_ONES)),
    "a client fuller than elements can make it": _subject(
        lambda data: _filled(data, FILTERS + 16, THREE_OF_FOUR)
    ),
    "a client with bits beyond its size": _subject(lambda data: data[:-1] + b"\xff"),
    "a client that lacks a filter": _subject(lambda data: data[:-1]),
    "a client with a filter more": _subject(lambda data: data + bytes(8)),
    "a policy in the place of a client": _subject(
        lambda data: data[:1] + b"\x02" + data[2:]
    ),
    "policies of another version": _rule(lambda data: b"\x02" + data[1:]),
    "policies of another size": _rule(lambda data: data[:7] + bytes([data[7] ^ 1]) + data[8:]),
    "policies cut short": _rule(lambda data: data[:-1]),
    "policies of no filter": _rule(lambda data: data[:FILTERS]),
    "another n": _parameter("n", 15),
    "another m": _parameter("m", 1024),
    "another k": _parameter("k", 1),
    "other masks": _parameter("masks", 3),
    "an m of one": _parameter("m", 1),
    "an m of 2^40": _parameter("m", 2**40),
    "a k of nothing": _parameter("k", 0),
    "a k of 257": _parameter("k", 257),
    "an n of nothing": _parameter("n", 0),
    "another encoding": _parameter("encoding", "tokens"),
    "an encoding that nobody knows": _parameter("encoding", "plain"),
    "a probability of two": _parameter("blind_probability", 2.0),
    "a parameter more": _parameter("salt", 1),
    "a client twice": _epoch(lambda epoch: epoch.update(subjects=epoch["subjects"] * 2)),
    "a policy twice": _epoch(lambda epoch: epoch.update(rules=epoch["rules"] * 2)),
    "an epoch in no known state": _epoch(lambda epoch: epoch.update(state="eternal")),
    "a policy about no known type": _epoch(
        lambda epoch: epoch["rules"][0].update(type="Nothing")
    ),
    "an action that nobody knows": _epoch(
        lambda epoch: epoch["rules"][0].update(action="own")
    ),
    "a routing tag of 15 bytes": _epoch(
        lambda epoch: epoch["rules"][0].update(event_tags=[b64(bytes(15))])
    ),
    "two epochs that are current": Forgery(
        "encodings", "malformed",
        lambda one: one.edited(EPOCHS, lambda part: part["epochs"].append(
            {**part["epochs"][0], "epoch": 2})),
    ),
    "a key that does not open": Forgery(
        "encodings", "malformed",
        lambda one: one.edited(KEYS, lambda part: part["wraps"][0].update(
            sealed=b64(_spoiled(unb64(part["wraps"][0]["sealed"]))))),
    ),
    "a key of another group": Forgery(
        "encodings", "malformed",
        lambda one: one.edited(KEYS, lambda part: part["wraps"][0].update(group="overlay:b")),
    ),
    "a key of another epoch": Forgery(
        "encodings", "malformed",
        lambda one: one.edited(KEYS, lambda part: part["wraps"][0].update(epoch=7)),
    ),
    "a key of half the size": Forgery(
        "encodings", "malformed",
        lambda one: one.edited(KEYS, lambda part: part["wraps"][0].update(sealed=b64(bytes(40)))),
    ),
}  # fmt: skip

STRICT = {
    **{f"a manifest with {name}": Forgery(
        "non-canonical", "malformed", lambda one, text=text: one.signed(text(one.head)))
       for name, text in texts.EVERYWHERE.items()},
    **{f"policies with {name}": Forgery(
        "non-canonical", "malformed",
        lambda one, text=text: one.rewritten(EPOCHS, text(one.parts[EPOCHS])))
       for name, text in texts.EVERYWHERE.items()},
    **{f"a revision that is {name}": Forgery(
        "fast-forward", "malformed",
        lambda one, raw=raw: one.signed(texts.member("revision", raw)(one.head)))
       for name, raw in {**texts.NUMBERS, "nothing": b"0"}.items()},
}  # fmt: skip

TIMES = {
    "signed for trust anchors before": Forgery(
        "roots", "signature", lambda one: one.signed(one.header(root_version=0))
    ),
    "signed for trust anchors to come": Forgery(
        "roots", "signature", lambda one: one.signed(one.header(root_version=2))
    ),
    "expired since ever": Forgery(
        "expired", "expired", lambda one: one.signed(one.header(expires=0))
    ),
    "expired since a second": Forgery(
        "expired", "expired",
        lambda one: one.signed(one.header(expires=json.loads(one.head)["issued"])),
    ),
    "a delta by its name alone": Forgery(
        "deltas", "malformed",
        lambda one: one.signed(one.header(form="delta")),
    ),
    "a delta on a base that nobody has": Forgery(
        "deltas", "previous",
        lambda one: one.signed(one.header(form="delta", base="ab" * 32, previous="cd" * 32,
                                          content="ef" * 32)),
    ),
    "a whole that names a base": Forgery(
        "deltas", "malformed", lambda one: one.signed(one.header(base="ab" * 32))
    ),
}  # fmt: skip
