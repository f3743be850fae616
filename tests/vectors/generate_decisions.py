"""Writes the golden vectors of decision reports: `python -m tests.vectors.generate_decisions`.

Run it only when the format changes on purpose. HPKE draws an ephemeral key of its own: what the
product seals is sealed once more by the independent implementation under a fixed one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from policyengine.bundles import (
    DecisionReport,
    DecisionRow,
    contexts,
    seal_decisions,
    sign_decision_report,
)
from tests.support import bundle_samples as samples
from tests.vectors.generate import resealed

VECTORS = Path(__file__).with_name("decisions.json")
STREAM = "0f" * 16
PLACE: dict[str, Any] = {"domain": "heating", "audience": "agent:alpha", "stream": STREAM}


def rows() -> list[DecisionRow]:
    """One of each kind."""
    at, handle = 1_700_000_000_123, samples.HANDLE
    return [
        DecisionRow(
            at, 7, 1, "deliver", handle, "Wärme.Messung", "granted", "",
            ("policy-12", "policy-9a3n1"), ("s-1", "s-2"), 1,
        ),
        DecisionRow(
            at, 7, 1, "publish", handle, "Telemetry", "suppressed", "not-permitted",
            ("policy-3",), (), 4,
        ),
        DecisionRow(at + 1, 7, 0, "publish", "", "", "refused", "signature", (), (), 1),
        DecisionRow(at + 2, 7, 0, "subscribe", handle, "Telemetry", "granted", "", (), ("s-1",), 1),
    ]  # fmt: skip


def document() -> list[dict[str, Any]]:
    """Make the whole file: a segment with rows, and one without."""
    key = samples.sealing_key("control-plane")
    found = []
    for sequence, held in ((1, rows()), (2, [])):
        lines = [row.to_line() for row in held]
        sealed = seal_decisions(lines, recipient=key.public, sequence=sequence, **PLACE)
        info = "|".join(("heating", "agent:alpha", STREAM, str(sequence)))
        fixed = resealed(key, sealed, contexts.DECISIONS + b"|" + info.encode())
        report = DecisionReport(
            **PLACE, sequence=sequence, begin=1_700_000_000_000, end=1_700_000_060_000, lost=0,
            records=len(held), sealed=fixed,
        )  # fmt: skip
        request = sign_decision_report(report, samples.signing_key("alpha"))
        found.append(
            {
                "agent_public": samples.signing_key("alpha").public.hex(),
                "message": request.encode().hex(),
                "recipient_private": key.private.hex(),
                "report": report.to_json(),
                "rows": [list(row.to_json().values()) for row in held],
            }
        )
    return found


def text() -> str:
    """Return the vectors as they stand in the file."""
    return json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    VECTORS.write_text(text(), encoding="utf-8")
