"""Writes the golden vectors of routing: `python -m tests.vectors.generate_routing`.

Run it only when the format changes on purpose.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from policyengine.bundles import (
    Announcement,
    Carriage,
    Taken,
    rendezvous,
    seal_announcement,
    seal_carried,
    seal_expression,
    seal_taken,
)
from policyengine.primitives import SeededRandom
from tests.support import bundle_samples as samples

VECTORS = Path(__file__).with_name("routing.json")
EPOCH = 4
INNER = b"a hop as it was sealed"
EXPRESSION = 'house == "Grüne Gasse 4"'
FILTER_KEYS = {"fire": (1, b"f" * 32), "police": (3, b"p" * 32)}
PLACES = (
    ("heating", "Telemetry", ("alpha", "beta", "gamma", "delta"), 2),
    ("heating", "WaterTemperature", ("alpha", "beta", "gamma", "delta"), 2),
    ("flights", "Übergabe", ("alpha",), 2),
    ("flights", "Departure", ("e", "d", "c", "b", "a"), 5),
)


def announcement_vector(number: int, record: Announcement) -> dict[str, Any]:
    """One announcement under a fixed nonce."""
    sealed = seal_announcement(
        record,
        signing_key=samples.signing_key("alpha"),
        hop_key=samples.HOP_KEY,
        epoch=EPOCH,
        random=SeededRandom(b"announcement %d" % number),
    )
    return {
        "body": record.to_json(),
        "epoch": EPOCH,
        "key": samples.HOP_KEY.hex(),
        "public": samples.signing_key("alpha").public.hex(),
        "sealed": sealed.hex(),
    }


def carried_vector(number: int, record: Carriage) -> dict[str, Any]:
    """Orders around a hop."""
    sealed = seal_carried(
        record,
        INNER,
        hop_key=samples.HOP_KEY,
        epoch=EPOCH,
        random=SeededRandom(b"carried %d" % number),
    )
    return {
        "body": record.to_json(),
        "epoch": EPOCH,
        "hop": INNER.hex(),
        "key": samples.HOP_KEY.hex(),
        "sealed": sealed.hex(),
    }


def taken_vector(number: int, record: Taken) -> dict[str, Any]:
    """One receipt."""
    sealed = seal_taken(
        record,
        hop_key=samples.HOP_KEY,
        epoch=EPOCH,
        random=SeededRandom(b"taken %d" % number),
    )
    return {
        "body": record.to_json(),
        "epoch": EPOCH,
        "key": samples.HOP_KEY.hex(),
        "sealed": sealed.hex(),
    }


def filter_vector() -> dict[str, Any]:
    """One filter under two keys."""
    sealed = seal_expression(
        EXPRESSION,
        FILTER_KEYS,
        domain="heating",
        agent="alpha",
        random=SeededRandom(b"filter"),
    )
    return {
        "agent": "alpha",
        "domain": "heating",
        "expression": EXPRESSION,
        "keys": {name: [epoch, key.hex()] for name, (epoch, key) in FILTER_KEYS.items()},
        "sealed": sealed,
    }


def document() -> dict[str, list[dict[str, Any]]]:
    """Make the whole file."""
    announcements = [
        samples.announcement(),
        samples.announcement(scope=(), interests=(), asks=False),
    ]
    carriages = [
        samples.carriage(),
        samples.carriage(path=("alpha", "beta"), to=("delta", "gamma"), distribute=False),
    ]
    return {
        "announcements": [announcement_vector(*item) for item in enumerate(announcements)],
        "carried": [carried_vector(*item) for item in enumerate(carriages)],
        "filters": [filter_vector()],
        "rendezvous": [
            {
                "agents": list(agents),
                "domain": domain,
                "found": list(rendezvous(domain, kind, agents, replicas=count)),
                "replicas": count,
                "type": kind,
            }
            for domain, kind, agents, count in PLACES
        ],
        "taken": [taken_vector(*item) for item in enumerate([samples.taken()])],
    }


def text() -> str:
    """Return the vectors as they stand in the file."""
    return json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    VECTORS.write_text(text(), encoding="utf-8")
