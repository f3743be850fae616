"""Writes the golden vectors of attribute-based encryption: `python -m tests.vectors.generate_abe`.

Run it only when the format changes on purpose, with a new version byte. All randomness comes
from the seeds in the file, so that `verify_abe` makes every byte once more by itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from policyengine import abe
from policyengine.attributes.parser import parse
from policyengine.attributes.types import AttributeType, Schema, check_values
from policyengine.attributes.universe import (
    Element,
    Leaf,
    Node,
    access_tree,
    elements_of,
    satisfied,
)
from policyengine.primitives.canonical import b64
from policyengine.primitives.rand import SeededRandom

VECTORS = Path(__file__).with_name("abe.json")

FLIGHT: Schema = {
    "delayed": AttributeType("bool"),
    "level": AttributeType("int", 0, 3),
    "zone": AttributeType("string"),
}
FILTERS = [
    'zone == "We" && (level >= 2 || delayed == true)',
    'atLeast(2, [level <= 1, zone.startsWith("E"), delayed == true]) || level == 3',
    'delayed == true || zone != "We"',
]
FLIGHTS: list[dict[str, Any]] = [
    {"zone": "We", "level": 2, "delayed": False},
    {"zone": "Eé", "level": 1},
]
PERSON: Schema = {
    "cleared": AttributeType("bool"),
    "role": AttributeType("enum", values=("pilot", "crew", "clerk")),
}
PERSONS: list[dict[str, Any]] = [{"cleared": True, "role": "pilot"}, {"role": "crew"}]
PAYLOADS = [
    'atLeast(2, [cleared == true, role == "pilot", role == "clerk"]) && has(role)',
    """(has(role) && (cleared == true || has(role) && role == "pilot"))
    || (role == "crew" && !has(cleared) && has(role))""",
]
USES = 2


def tree_json(tree: Node) -> dict[str, Any]:
    """Write a tree so that a person can read it."""
    if isinstance(tree, Leaf):
        asked = element_json(tree.element)
        return {"not": asked} if tree.negated else {"is": asked}
    return {"count": tree.count, "terms": [tree_json(term) for term in tree.terms]}


def element_json(element: Element) -> list[str]:
    """Write an element."""
    return [element.label, element.value]


def seed(text: str) -> tuple[str, SeededRandom]:
    """Return a seed for the file, and its stream."""
    return b64(text.encode()), SeededRandom(text.encode())


def kpabe_vector() -> dict[str, Any]:
    """An authority, filters, events, and which of them open."""
    written, random = seed("kpabe authority")
    master = abe.setup("hash", random=random)
    public = abe.public_key(master)
    trees = [access_tree(parse(text, FLIGHT), FLIGHT) for text in FILTERS]
    events = [elements_of(check_values(values, FLIGHT), FLIGHT) for values in FLIGHTS]
    filters, ciphertexts = [], []
    for number, (text, tree) in enumerate(zip(FILTERS, trees, strict=True)):
        drawn, random = seed(f"kpabe filter {number}")
        key = abe.encode_filter_key(abe.keygen(master, tree, random))
        filters.append(
            {"expression": text, "seed": drawn, "tree": tree_json(tree), "key": b64(key)}
        )
    for number, elements in enumerate(events):
        drawn, random = seed(f"kpabe event {number}")
        secret, ciphertext = abe.encapsulate(public, elements, random)
        ciphertexts.append(
            {
                "seed": drawn,
                "elements": [element_json(element) for element in elements],
                "ciphertext": b64(abe.encode_ciphertext(ciphertext)),
                "secret": b64(secret),
            }
        )
    return {
        "seed": written,
        "master": b64(abe.encode_master(master)),
        "public": b64(abe.encode_public(public)),
        "filters": filters,
        "events": ciphertexts,
        "opens": [[satisfied(tree, elements) for elements in events] for tree in trees],
    }


def cpabe_vector() -> dict[str, Any]:
    """An authority, users, payloads, and which of them open."""
    written, random = seed("cpabe authority")
    master = abe.cp_setup(uses=USES, random=random)
    public = abe.cp_public_key(master)
    policies = [abe.payload_policy(parse(text, PERSON), PERSON) for text in PAYLOADS]
    checked = [check_values(values, PERSON) for values in PERSONS]
    owned = [elements_of(values, PERSON) for values in checked]
    users, payloads = [], []
    for number, (values, elements) in enumerate(zip(checked, owned, strict=True)):
        drawn, random = seed(f"cpabe user {number}")
        key = abe.cp_keygen(master, values, PERSON, random)
        users.append(
            {
                "seed": drawn,
                "elements": [element_json(element) for element in elements],
                "key": b64(abe.encode_cp_user(key)),
            }
        )
    for number, (text, policy) in enumerate(zip(PAYLOADS, policies, strict=True)):
        drawn, random = seed(f"cpabe payload {number}")
        secret, ciphertext = abe.cp_encapsulate(public, policy, random)
        payloads.append(
            {
                "expression": text,
                "seed": drawn,
                "policy": tree_json(policy),
                "ciphertext": b64(abe.encode_cp_ciphertext(ciphertext)),
                "secret": b64(secret),
            }
        )
    return {
        "seed": written,
        "uses": USES,
        "master": b64(abe.encode_cp_master(master)),
        "public": b64(abe.encode_cp_public(public)),
        "users": users,
        "payloads": payloads,
        "opens": [[satisfied(policy, elements) for policy in policies] for elements in owned],
    }


def text() -> str:
    """Return the vectors as they stand in the file."""
    document = {"kpabe": [kpabe_vector()], "cpabe": [cpabe_vector()]}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    VECTORS.write_text(text(), encoding="utf-8")
