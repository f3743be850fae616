"""Writes the golden vectors of sessions: `python -m tests.vectors.generate_sessions`.

Run it only when the format changes on purpose. HPKE draws an ephemeral key of its own: the
inside of the session that the product seals is sealed once more by the independent
implementation under a fixed one, and deliveries travel with that.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from policyengine.bundles import begin_session, contexts, seal_in_session
from policyengine.primitives import SeededRandom
from tests.support import bundle_samples as samples
from tests.vectors.generate import resealed

VECTORS = Path(__file__).with_name("sessions.json")


def document() -> list[dict[str, Any]]:
    """Make the whole file: two deliveries under one key, and one of another epoch."""
    client = samples.sealing_key(samples.HANDLE)
    records = [
        (1, samples.delivery()),
        (1, samples.delivery(part=1, attributes={"house": "Grüne Gasse 4"}, withheld={})),
        (2, samples.delivery(epoch=2, publication="5" * 32)),
    ]
    found = []
    for number, (epoch, record) in enumerate(records):
        held = begin_session(
            record.domain,
            epoch,
            agent=record.agent,
            signing_key=samples.signing_key("alpha"),
            recipient=client.public,
            handle=samples.HANDLE,
            random=SeededRandom(b"session %d" % epoch),
        )
        info = contexts.SESSION + b"|" + samples.HANDLE.encode()
        fixed = replace(held, sealed=resealed(client, held.sealed, info))
        message = seal_in_session(record, fixed, random=SeededRandom(b"nonce %d" % number))
        found.append(
            {
                "agent": record.agent,
                "agent_public": samples.signing_key("alpha").public.hex(),
                "body": record.to_json(),
                "domain": record.domain,
                "epoch": epoch,
                "handle": samples.HANDLE,
                "message": message.hex(),
                "recipient_private": client.private.hex(),
                "session_key": held.session.key.hex(),
            }
        )
    return found


def text() -> str:
    """Return the vectors as they stand in the file."""
    return json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    VECTORS.write_text(text(), encoding="utf-8")
