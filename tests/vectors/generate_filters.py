"""Writes the golden vectors of keys for filters: `python -m tests.vectors.generate_filters`.

Run it only when the format changes on purpose. HPKE draws an ephemeral key of its own: what the
product seals is sealed once more by the independent implementation under a fixed one, each key
inside of an answer too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from policyengine.bundles import (
    EpochKey,
    FilterAnswer,
    FilterRequest,
    contexts,
    seal_filter_answer,
    seal_secret,
    sign_filter_request,
)
from policyengine.primitives import pack
from tests.support import bundle_samples as samples
from tests.vectors.generate import resealed

VECTORS = Path(__file__).with_name("filters.json")
PLACE: dict[str, Any] = {
    "audience": samples.CLIENT,
    "domain": "heating",
    "type": "Wärme.Messung",
    "attributes": ("degrees", "house"),
}
KEYS = {3: b"the keys of epoch three", 4: b"the keys of epoch four"}
REASON = "ada may not read `house` of `Wärme.Messung`"


def epoch_key(epoch: int) -> EpochKey:
    """A key as the authority seals it."""
    client = samples.sealing_key(samples.HANDLE)
    place = {"domain": "heating", "epoch": epoch, "audience": samples.CLIENT}
    sealed = seal_secret(
        "filter", KEYS[epoch], name=PLACE["type"], recipient=client.public, **place
    )
    info = pack(
        b"portcullis/authority-seal/v1",
        b"filter",
        b"heating",
        epoch.to_bytes(8, "big"),
        PLACE["type"].encode(),
        samples.CLIENT.encode(),
    )
    return EpochKey(epoch, resealed(client, sealed, info))


def document() -> dict[str, list[dict[str, Any]]]:
    """Make the whole file: what is asked, and answers that give, refuse and put off."""
    client, at = samples.sealing_key(samples.HANDLE), samples.NOW
    asked = FilterRequest(**PLACE, request="1" * 32, at=at)
    answers = [
        FilterAnswer(**PLACE, request="1" * 32, at=at, keys=tuple(map(epoch_key, KEYS))),
        FilterAnswer(**PLACE, request="2" * 32, at=at, reason=REASON),
        FilterAnswer(**PLACE, request="3" * 32, at=at, reason="ask again shortly", again=True),
    ]
    return {
        "requests": [
            {
                "body": asked.to_json(),
                "client_public": samples.signing_key(samples.HANDLE).public.hex(),
                "message": sign_filter_request(asked, samples.signing_key(samples.HANDLE))
                .encode()
                .hex(),
            }
        ],
        "answers": [
            {
                "authority_public": samples.AUTHORITY.public.hex(),
                "body": answer.to_json(),
                "keys": {str(each.epoch): KEYS[each.epoch].decode() for each in answer.keys},
                "message": resealed(
                    client,
                    seal_filter_answer(
                        answer, sign=samples.signer("authority"), recipient=client.public
                    ),
                    contexts.FILTER_ANSWER + b"|" + samples.CLIENT.encode(),
                ).hex(),
                "recipient_private": client.private.hex(),
            }
            for answer in answers
        ],
    }


def text() -> str:
    """Return the vectors as they stand in the file."""
    return json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    VECTORS.write_text(text(), encoding="utf-8")
