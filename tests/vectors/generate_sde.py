"""Writes the golden vectors of searchable encryption: `python -m tests.vectors.generate_sde`.

Run it only when the format changes on purpose, with a new version byte.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from policyengine.attributes import (
    Gate,
    Node,
    Ranges,
    access_tree,
    check_values,
    leaves,
    parse,
    schema_from_json,
)
from policyengine.primitives.rand import SeededRandom
from policyengine.sde import (
    BrokerKey,
    EncryptedEvent,
    EncryptedFilter,
    GroupName,
    Matcher,
    UserKey,
    encrypt_event,
    encrypt_filter,
    init,
    keygen,
    matches,
    reencrypt_event,
    reencrypt_filter,
)

VECTORS = Path(__file__).with_name("sde.json")

PUBLISHER, SUBSCRIBER = "publisher", "Käufer Ω"
SCHEMA: dict[str, Any] = {
    "zone": {"type": "enum", "values": ["West", "East", "Süd"]},
    "level": {"type": "int", "min": 0, "max": 9},
    "urgent": {"type": "bool"},
}
TEXTS: dict[str, Any] = {**SCHEMA, "note": {"type": "string"}}


@dataclass(frozen=True)
class Case:
    """One system: what is published in it and what is asked.

    Args:
        group: the group's name.
        ranges: `dyadic` or `bits`.
        padding: of the events.
        schema: types of the attributes.
        events: values, event by event.
        filters: expressions.
    """

    group: GroupName
    ranges: Ranges
    padding: int
    schema: dict[str, Any]
    events: list[dict[str, Any]]
    filters: list[str] = field(default_factory=list)


ASKED = [
    "true",
    'zone == "Süd" && level >= 3 && level < 8',
    'atLeast(2, [urgent == true, level > 6, zone in ["West", "East"]])',
]
CASES = [
    Case(
        "curve",
        "dyadic",
        4,
        TEXTS,
        [{"zone": "Süd", "level": 5, "urgent": False, "note": 'é"'}, {"level": 7, "urgent": True}],
        [*ASKED, '!note.startsWith("ab") && note != "é" || !has(urgent)'],
    ),
    Case("zp1024", "dyadic", 16, SCHEMA, [{"zone": "Süd", "level": 5, "urgent": True}], ASKED),
    Case("zp1024", "bits", 1, SCHEMA, [{"zone": "West", "level": 9}, {}], ASKED[1:]),
]


def keys_of(number: int, group: GroupName) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a system and two users, and the vector that says what they hold."""
    seed = b"keys %d" % number
    random = SeededRandom(seed)
    master = init(group, random=random)
    users = {name: keygen(master, name, random=random) for name in (PUBLISHER, SUBSCRIBER)}
    vector = {
        "group": group,
        "seed": seed.hex(),
        "master": master.encode().hex(),
        "users": [
            {"name": name, "user": user.encode().hex(), "share": share.encode().hex()}
            for name, (user, share) in users.items()
        ],
    }
    return vector, users


def tree_to_json(tree: Node) -> dict[str, Any]:
    """Write an access tree."""
    if isinstance(tree, Gate):
        return {"count": tree.count, "terms": [tree_to_json(term) for term in tree.terms]}
    element = tree.element
    return {"label": element.label, "value": element.value, "negated": tree.negated}


def event_vector(
    case: Case, seed: bytes, values: dict[str, Any], user: UserKey, share: BrokerKey
) -> dict[str, Any]:
    """Make one event: what the publisher sends and what the broker makes of it."""
    schema = schema_from_json(case.schema)
    made = encrypt_event(
        user,
        check_values(values, schema),
        schema,
        ranges=case.ranges,
        padding=case.padding,
        random=SeededRandom(seed),
    )
    return {
        "group": case.group,
        "seed": seed.hex(),
        "user": user.encode().hex(),
        "share": share.encode().hex(),
        "ranges": case.ranges,
        "padding": case.padding,
        "schema": case.schema,
        "values": values,
        "hidden": [element and [element.label, element.value] for element in made.elements],
        "sent": made.event.encode().hex(),
        "finished": reencrypt_event(share, made.event).encode().hex(),
    }


def filter_vector(
    case: Case, seed: bytes, text: str, user: UserKey, share: BrokerKey
) -> dict[str, Any]:
    """Make one filter: what the subscriber sends and what the broker makes of it."""
    schema = schema_from_json(case.schema)
    tree = access_tree(parse(text, schema), schema, ranges=case.ranges)
    made = encrypt_filter(user, tree, random=SeededRandom(seed))
    return {
        "group": case.group,
        "seed": seed.hex(),
        "user": user.encode().hex(),
        "share": share.encode().hex(),
        "expression": text,
        "tree": tree_to_json(tree),
        "leaves": [tree_to_json(leaf) for leaf in leaves(made.tree)],
        "sent": made.filter.encode().hex(),
        "finished": reencrypt_filter(share, made.filter).encode().hex(),
    }


def match_vector(asked: dict[str, Any], event: dict[str, Any]) -> dict[str, Any]:
    """Match a finished filter with a finished event."""
    stored = EncryptedFilter.decode(bytes.fromhex(asked["finished"]))
    found = EncryptedEvent.decode(bytes.fromhex(event["finished"]))
    matcher = Matcher(stored.system)
    matcher.add("it", stored)
    return {
        "group": asked["group"],
        "filter": asked["finished"],
        "event": event["finished"],
        "leaves": asked["leaves"],
        "hidden": event["hidden"],
        "places": sorted(matcher.places("it", found).items()),
        "holds": matches(stored, found),
    }


def document() -> dict[str, list[dict[str, Any]]]:
    """Make the whole file."""
    made: dict[str, list[dict[str, Any]]] = {"keys": [], "events": [], "filters": [], "matches": []}
    for number, case in enumerate(CASES):
        vector, users = keys_of(number, case.group)
        events = [
            event_vector(case, b"event %d %d" % (number, at), values, *users[PUBLISHER])
            for at, values in enumerate(case.events)
        ]
        filters = [
            filter_vector(case, b"filter %d %d" % (number, at), text, *users[SUBSCRIBER])
            for at, text in enumerate(case.filters)
        ]
        made["keys"].append(vector)
        made["events"] += events
        made["filters"] += filters
        made["matches"] += [match_vector(asked, event) for asked in filters for event in events]
    return made


def text() -> str:
    """Return the vectors as they stand in the file."""
    return json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    VECTORS.write_text(text(), encoding="utf-8")
