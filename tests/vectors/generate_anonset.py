"""Writes the golden vectors of the anonymous sets: `python -m tests.vectors.generate_anonset`.

Run it only when the format changes on purpose, with a new version byte.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from policyengine.anonset import Encoder, Parameters, match, size_for, tag
from policyengine.primitives.rand import SeededRandom

VECTORS = Path(__file__).with_name("anonset.json")

SIZES = [
    size_for(4),
    size_for(10, target_log2=40),
    Parameters("bloom", 6, 333, 17, masks=0, blind_probability=0.0),
    Parameters("bloom", 6, 1000, 40, masks=4, blind_probability=1.0),
    size_for(6, encoding="tokens"),
    size_for(6, encoding="tokens", blind_probability=0.5),
]
SUBJECTS = [[], ['type=="individual"', 'consumer=="Y"'], ["level==5", "level < 10", "has(level)"]]
POLICIES = [[], ['consumer=="Y"'], ['type=="individual"', 'consumer=="Y"'], ["level < 10"]]


def vector(number: int, parameters: Parameters) -> dict[str, Any]:
    """Make one vector: a key, a seed, conjunctions and what comes of them."""
    key, seed = bytes([number]) * 32, b"vector %d" % number
    encoder = Encoder(key, parameters, random=SeededRandom(seed))
    subjects = [encoder.encode_subject(tokens) for tokens in SUBJECTS if fits(tokens, parameters)]
    policies = [encoder.encode_policy(tokens) for tokens in POLICIES]
    found = [[match(policy, subject, parameters) for policy in policies] for subject in subjects]
    return {
        "key": key.hex(),
        "seed": seed.hex(),
        "parameters": parameters.to_json(),
        "subjects": [
            {"tokens": tokens, "encoded": encoded.hex()}
            for tokens, encoded in zip(SUBJECTS, subjects, strict=False)
        ],
        "policies": [
            {"tokens": tokens, "encoded": encoded.hex()}
            for tokens, encoded in zip(POLICIES, policies, strict=True)
        ],
        "matches": [
            [{"granted": one.granted, "indices": list(one.indices)} for one in row] for row in found
        ],
    }


def fits(tokens: list[str], parameters: Parameters) -> bool:
    """Tell whether a conjunction fits whatever the coins of its blinding say."""
    return 2 * len(tokens) <= parameters.n


def document() -> dict[str, Any]:
    """Make the whole file."""
    key = bytes(range(16))
    return {
        "encodings": [vector(number, size) for number, size in enumerate(SIZES, start=1)],
        "tags": [
            {"key": key.hex(), "token": token, "tag": tag(key, token).hex()}
            for token in ['carrier=="UA"', "delay > 120", "", "é"]
        ],
    }


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(document(), indent=1, ensure_ascii=False) + "\n")
