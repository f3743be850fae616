"""Writes the golden vectors of order-preserving matching: `python -m tests.vectors.generate_ope`.

Run it only when the format changes on purpose, with a new version byte.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from policyengine.attributes import check_values, schema_from_json
from policyengine.ope import (
    Broker,
    Client,
    EncryptedEvent,
    EncryptedSubscription,
    KeyedComparator,
    OrderTable,
    Scheme,
    parse_conjunction,
    plain_broker,
    plain_client,
    sbm1_broker,
    sbm1_client,
    sbm2_broker,
    sbm2_client,
)
from policyengine.ope.conjunctions import constraints_of
from policyengine.ope.layout import Bound, Interval
from policyengine.primitives.rand import SeededRandom

VECTORS = Path(__file__).with_name("ope.json")

KEY = SeededRandom(b"order-preserving key").token(32)
SCHEMES: tuple[Scheme, ...] = ("sbm1", "sbm2", "plain")
SCHEMA: dict[str, Any] = {
    "carrier": {"type": "enum", "values": ["UA", "AA", "DL", "Ü"]},
    "urgent": {"type": "bool"},
    "delay": {"type": "int", "min": -10, "max": 39},
    "price": {"type": "float", "min": 0, "max": 100, "step": 0.1},
    "seats": {"type": "int", "min": 0, "max": 2**24},
    "miles": {"type": "int"},
    "fuel": {"type": "int", "min": 0},
    "load": {"type": "float"},
    "share": {"type": "float", "min": -1, "max": 1},
    "note": {"type": "string"},
}
SCHEMA_TYPES = schema_from_json(SCHEMA)
VALUES: dict[str, list[Any]] = {
    "carrier": ["UA", "AA", "DL", "Ü"],
    "urgent": [False, True],
    "delay": [-10, -9, 0, 38, 39],
    "price": [0, 0.1, 0.3, 70.7, 99.9, 100],
    "seats": [0, 1, 255, 256, 2**24 - 1, 2**24],
    "miles": [-(10**99), -256, -3, -2, -1, 0, 1, 2, 127, 128, 2**64, 10**99],
    "fuel": [0, 1, 511, 512],
    "load": [-1e308, -2.5, -5e-324, 0, 5e-324, 1, 1.5, 2.5, 1e308],
    "share": [-1, -0.1, 0, 0.1, 1],
    "note": ["", "a", "ab", "ba", "é€😀"],
}
TABLES = [(1, 1), (1, 64), (2, 2), (50, 64), (50, 7), (256, 9), (256, 32)]
DIGESTS = [(1001, 64), (1001, 11), (4096, 16)]
EVENTS: list[dict[str, Any]] = [
    {},
    {"carrier": "UA", "urgent": True, "delay": 39, "price": 12.3, "note": "abba"},
    {"carrier": "Ü", "urgent": False, "delay": 5, "price": 12.4, "seats": 300, "note": "ab"},
    {"carrier": "DL", "delay": -10, "miles": -7, "load": 0.25, "share": -0.5, "fuel": 8},
    {"carrier": "AA", "delay": 4, "miles": 2**70, "load": -1e10, "share": 1, "fuel": 0},
    {"miles": 100, "load": 0, "seats": 299, "note": "ébb"},
    {"miles": 101, "load": 0.1, "seats": 2**24, "note": ""},
]
SUBSCRIPTIONS: dict[str, list[tuple[str, str, Any]]] = {
    "all of it": [],
    "table": [("delay", ">", -10), ("delay", "<=", 39), ("delay", "!=", 5)],
    "words": [("carrier", "in", ["UA", "Ü"]), ("urgent", "!=", False)],
    "grid": [("price", ">=", 12.3), ("price", "<", 12.4)],
    "digits": [("miles", ">", -8), ("miles", "!=", 100), ("miles", "<", 2**71)],
    "floats": [("load", ">", -1e10), ("share", "<=", 0.5)],
    "ends": [("seats", "<", 300), ("load", "==", 0)],
    "below": [("fuel", "in", [0, 9]), ("share", "has", None)],
    "text": [("note", "startsWith", "ab"), ("note", "!=", "ab")],
    "suffix": [("note", "endsWith", "b"), ("note", "endsWith", "bb")],
    "texts": [("note", "in", ["", "abba", "b"])],
    "there": [("note", "has", None)],
    "never": [("delay", "<", 3), ("delay", ">", 3)],
}


def client_of(scheme: Scheme, seed: bytes) -> Client:
    """Make a client with a frozen source of nonces."""
    if scheme == "sbm1":
        return sbm1_client(KEY, SCHEMA_TYPES)
    if scheme == "sbm2":
        return sbm2_client(KEY, SCHEMA_TYPES, random=SeededRandom(seed))
    return plain_client(SCHEMA_TYPES)


def secrets(scheme: Scheme, seed: bytes) -> dict[str, str]:
    """Name the key, and the seed of nonces, as far as a scheme has them."""
    if scheme == "sbm2":
        return {"key": KEY.hex(), "seed": seed.hex()}
    return {"key": KEY.hex()} if scheme == "sbm1" else {}


def broker_of(scheme: Scheme) -> Broker:
    """Make a broker."""
    if scheme == "sbm2":
        return sbm2_broker(KeyedComparator(KEY))
    return sbm1_broker() if scheme == "sbm1" else plain_broker()


def written(tests: list[tuple[str, str, Any]]) -> str:
    """Write tests as the language has them."""
    return " && ".join(map(_test, tests)) if tests else "true"


def _test(test: tuple[str, str, Any]) -> str:
    name, op, value = test
    literal = json.dumps(value, ensure_ascii=False)
    if op == "has":
        return f"has({name})"
    return (
        f"{name}.{op}({literal})" if op in ("startsWith", "endsWith") else f"{name} {op} {literal}"
    )


def table_vector(size: int, bits: int, *, whole: bool) -> dict[str, Any]:
    """Make one order-preserving function."""
    key = SeededRandom(b"table %d %d" % (size, bits)).token(32)
    table = OrderTable(key, size, bits=bits).table.tolist()
    vector = {"key": key.hex(), "size": size, "bits": bits}
    if whole:
        return {**vector, "table": table}
    data = b"".join(number.to_bytes(8, "big") for number in table)
    return {**vector, "digest": sha256(data).hexdigest()}


def column_vectors(attribute: str) -> list[dict[str, Any]]:
    """Make the points and ciphertexts of SBM-I in the columns of one attribute."""
    client = client_of("sbm1", b"")
    found: dict[str, list[dict[str, Any]]] = {}
    for value in VALUES[attribute]:
        checked = check_values({attribute: value}, SCHEMA_TYPES)
        for name, ciphertext in client.encrypt_event(checked).values:
            column = client.layout.columns[name]
            point = column.point(checked[attribute])
            entry = {"value": value, "point": point, "ciphertext": ciphertext.hex()}
            if column.form == "digits":
                assert isinstance(point, int)
                entry["code"] = column.code.code(point)
            found.setdefault(name, []).append(entry)
    return [
        {
            "key": KEY.hex(),
            "name": name,
            "type": SCHEMA[attribute],
            "form": client.layout.columns[name].form,
            "points": points,
        }
        for name, points in found.items()
    ]


def event_vector(scheme: Scheme, number: int) -> dict[str, Any]:
    """Make one encrypted event."""
    seed = b"event %d" % number
    values = check_values(EVENTS[number], SCHEMA_TYPES)
    return {
        "scheme": scheme,
        **secrets(scheme, seed),
        "schema": {name: SCHEMA[name] for name in EVENTS[number]},
        "values": EVENTS[number],
        "bytes": client_of(scheme, seed).encrypt_event(values).to_bytes().hex(),
    }


def subscription_vector(scheme: Scheme, name: str) -> dict[str, Any]:
    """Make one encrypted subscription, with its intervals in clear."""
    seed = b"subscription " + name.encode()
    client, text = client_of(scheme, seed), written(SUBSCRIPTIONS[name])
    made = client.encrypt_subscription(text).to_bytes().hex()
    constraints = constraints_of(
        parse_conjunction(text, SCHEMA_TYPES), client.layout, client._order
    )
    clear = None
    if constraints is not None:
        clear = {key: [_ends(one) for one in each] for key, each in constraints.items()}
    return {
        "scheme": scheme,
        **secrets(scheme, seed),
        "schema": {attribute: SCHEMA[attribute] for attribute, _, _ in SUBSCRIPTIONS[name]},
        "name": name,
        "text": text,
        "intervals": clear,
        "bytes": made,
    }


def _ends(interval: Interval) -> list[Any]:
    return [_end(interval.low), _end(interval.high)]


def _end(bound: Bound | None) -> dict[str, Any] | None:
    if bound is None:
        return None
    return {"point": bound.point, "open": bound.open, "after": bound.after}


def match_vector(
    scheme: Scheme, subscriptions: list[dict[str, Any]], events: list[dict[str, Any]]
) -> dict[str, Any]:
    """Match all events with all subscriptions, over their bytes."""
    broker = broker_of(scheme)
    for one in subscriptions:
        stored = EncryptedSubscription.from_bytes(bytes.fromhex(one["bytes"]))
        broker.add(one["name"], stored)
    return {
        "scheme": scheme,
        **({"key": KEY.hex()} if scheme == "sbm2" else {}),
        "subscriptions": [
            {
                "name": one["name"],
                "tests": [list(test) for test in SUBSCRIPTIONS[one["name"]]],
                "bytes": one["bytes"],
            }
            for one in subscriptions
        ],
        "events": [
            {
                "values": one["values"],
                "bytes": one["bytes"],
                "names": broker.match(EncryptedEvent.from_bytes(bytes.fromhex(one["bytes"]))),
            }
            for one in events
        ],
    }


def document() -> dict[str, list[dict[str, Any]]]:
    """Make the whole file."""
    made: dict[str, list[dict[str, Any]]] = {
        "tables": [table_vector(*sizes, whole=True) for sizes in TABLES]
        + [table_vector(*sizes, whole=False) for sizes in DIGESTS],
        "columns": [vector for name in SCHEMA for vector in column_vectors(name)],
        "events": [],
        "subscriptions": [],
        "matches": [],
    }
    for scheme in SCHEMES:
        events = [event_vector(scheme, number) for number in range(len(EVENTS))]
        subscriptions = [subscription_vector(scheme, name) for name in SUBSCRIPTIONS]
        made["events"] += events
        made["subscriptions"] += subscriptions
        made["matches"].append(match_vector(scheme, subscriptions, events))
    return made


def text() -> str:
    """Return the vectors as they stand in the file."""
    return json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    VECTORS.write_text(text(), encoding="utf-8")
