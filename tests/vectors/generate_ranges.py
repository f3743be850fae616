"""Writes the golden vectors of order-preserving attributes on their way.

`python -m tests.vectors.generate_ranges`; run it only when the format changes on purpose.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from policyengine.attributes import AttributeType, parse
from policyengine.bundles import ComparatorContent, OrderedColumn, OrderKey, RoutedPart
from policyengine.events import AttributeSpec, EventTypes, TypeSpec
from policyengine.ope import RangeCipher, RangeKey, Slot
from policyengine.primitives import SeededRandom
from tests.support import bundle_samples as samples

VECTORS = Path(__file__).with_name("ranges.json")
DECLARED = {
    "degrees": AttributeType("int", minimum=0, maximum=100),
    "house": AttributeType("string"),
}
EVENT: dict[str, Any] = {"degrees": 61, "house": "Grüne Gasse 4"}
FILTER = "degrees >= 60 && house startsWith 'Grün' || degrees == 7"
TYPES = EventTypes(
    [
        TypeSpec(
            "Telemetry",
            None,
            tuple(
                AttributeSpec(name, kind, (), "confidential", "order-preserving")
                for name, kind in DECLARED.items()
            ),
        )
    ]
)


def keys(scheme: Any) -> list[RangeKey]:
    """One key an attribute."""
    return [
        RangeKey(
            Slot("heating", "Telemetry", name, 3), scheme, SeededRandom(name.encode()).token(32)
        )
        for name in DECLARED
    ]


def scheme_vector(scheme: Any) -> dict[str, Any]:
    """Keys, an event and a filter of one scheme."""
    held = keys(scheme)
    cipher = RangeCipher(TYPES, [(key, True) for key in held], random=SeededRandom(b"ranges"))
    return {
        "scheme": scheme,
        "keys": [
            {
                "slot": [key.slot.domain, key.slot.type, key.slot.attribute, key.slot.epoch],
                "name": key.slot.name,
                "column": key.slot.column(DECLARED[key.slot.attribute]),
                "type": DECLARED[key.slot.attribute].to_json(),
                "client": key.to_bytes().hex(),
                "comparator": key.comparator_key().to_bytes().hex() if scheme == "sbm2" else "",
            }
            for key in held
        ],
        "values": cipher.encrypt_values("Telemetry", EVENT).to_bytes().hex(),
        "filter": cipher.encrypt_filter("Telemetry", parse(FILTER, DECLARED)).to_bytes().hex(),
    }


def records() -> list[dict[str, Any]]:
    """Records with the members that order-preserving attributes add, and without."""
    key = keys("sbm2")[0]
    order = OrderKey("Telemetry", "degrees", 3, "current", key.comparator_key().to_bytes())
    column = OrderedColumn("Telemetry", "degrees", 3, "current", "sbm2")
    made: list[Any] = [
        samples.publication(ordered=b"values"),
        samples.publication(),
        samples.subscribe_request(ordered=b"filter"),
        samples.subscribe_request(),
        RoutedPart.from_json(samples.routed(ordered=b"values").to_json()),
        ComparatorContent("heating", "beside", (order,)),
        column,
    ]
    return [{"record": type(one).__name__, "body": one.to_json()} for one in made]


def main() -> None:
    """Write the file."""
    found = {
        "event": EVENT,
        "filter": FILTER,
        "schemes": [scheme_vector(scheme) for scheme in ("sbm1", "sbm2")],
        "records": records(),
    }
    VECTORS.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
