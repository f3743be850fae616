"""An entry as the bytes that its hash is made of."""

from __future__ import annotations

import hashlib
from datetime import UTC

from adminapp.audit.models import Entry
from adminapp.core import canonical

FIELDS = (
    "sequence",
    "actor_name",
    "action",
    "domain_name",
    "object_type",
    "object_id",
    "object_name",
    "before",
    "after",
    "previous_hash",
)


def digest(entry: Entry) -> str:
    """SHA-256 over every field but the hash itself, canonical."""
    body = {name: getattr(entry, name) for name in FIELDS}
    body["at"] = entry.at.astimezone(UTC).isoformat(timespec="microseconds")
    return hashlib.sha256(canonical.dumps(body).encode()).hexdigest()
