"""An entry as the bytes that its hash is made of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from adminapp.audit.models import Entry
from adminapp.core import canonical
from policyengine.primitives.canonical import b64
from policyengine.primitives.merkle import leaf_hash

FORMAT = 1


def moment(at: datetime) -> str:
    """A time as it is hashed and exported: UTC, to the microsecond."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def leaf(
    *,
    sequence: int,
    at: datetime,
    actor: str,
    source: str,
    change_set: int | None,
    action: str,
    domain_name: str,
    object_type: str,
    object_id: str,
    open_name: str,
    open_before: Any,
    open_after: Any,
    person: str | None,
    sealed: bytes | None,
) -> bytes:
    """The leaf of the tree: RFC 6962's hash over every field, canonical.

    Of actor and person their pseudonyms are hashed, and of what is sealed the ciphertext: erasing
    somebody changes none of it.
    """
    body = {
        "format": FORMAT,
        "sequence": sequence,
        "at": moment(at),
        "actor": actor,
        "source": source,
        "change_set": change_set,
        "action": action,
        "domain": domain_name,
        "object_type": object_type,
        "object_id": object_id,
        "object_name": open_name,
        "before": open_before,
        "after": open_after,
        "person": person,
        "sealed": None if sealed is None else b64(sealed),
    }
    return leaf_hash(canonical.dumps(body).encode())


def leaf_of(entry: Entry) -> bytes:
    """`leaf` of a row."""
    return leaf(
        sequence=entry.sequence,
        at=entry.at,
        actor=entry.actor.pseudonym,
        source=entry.source,
        change_set=entry.change_set,
        action=entry.action,
        domain_name=entry.domain_name,
        object_type=entry.object_type,
        object_id=entry.object_id,
        open_name=entry.open_name,
        open_before=entry.open_before,
        open_after=entry.open_after,
        person=None if entry.person is None else entry.person.pseudonym,
        sealed=None if entry.sealed is None else bytes(entry.sealed),
    )


def exported(entry: Entry) -> dict[str, Any]:
    """An entry for a file or an answer: readable, and with all that its leaf is made of."""
    return {
        "sequence": entry.sequence,
        "at": moment(entry.at),
        "actor": entry.actor_name,
        "actor_pseudonym": entry.actor.pseudonym,
        "source": entry.source,
        "change_set": entry.change_set,
        "action": entry.action,
        "domain": entry.domain_name,
        "object_type": entry.object_type,
        "object_id": entry.object_id,
        "object_name": entry.object_name,
        "before": entry.before,
        "after": entry.after,
        "person": None if entry.person is None else entry.person.pseudonym,
        "sealed": None if entry.sealed is None else b64(bytes(entry.sealed)),
        "leaf": entry.leaf,
    }
