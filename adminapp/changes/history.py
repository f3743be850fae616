"""What a domain was at an earlier revision, and the way back to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adminapp.audit import selectors as audit
from adminapp.changes.models import ChangeSet
from adminapp.changes.operations import Operation
from adminapp.core.errors import Invalid
from adminapp.identity import kinds
from adminapp.identity.models import Domain

# What nobody brings back: a right that was revoked, a person who was erased, a time that is over.
FINAL = frozenset({"principal.revoked", "principal.erased", "appointment.lapsed"})


def back_to(domain: Domain, revision: int) -> list[Operation]:
    """Operations that make the domain's model what it was at `revision`.

    Every later change is taken back in turn, by the documents that the audit keeps.

    Raises:
        Invalid: there is no such revision, or it is older than what is kept.
    """
    oldest = _oldest(domain)
    if not oldest <= revision <= domain.revision:
        raise Invalid.at(
            "/revision",
            f"`{domain.name}` can go back to revisions {oldest} to {domain.revision}",
            "unknown",
        )
    later = ChangeSet.objects.filter(domain=domain, revision__gt=revision)
    wanted = _before(audit.entries_of(later.values_list("pk", flat=True)))
    return _operations(domain, wanted)


def _oldest(domain: Domain) -> int:
    """The revision before the first change set: further back nothing is known."""
    first = (
        ChangeSet.objects.filter(domain=domain, state=ChangeSet.State.APPLIED)
        .exclude(revision=None)
        .order_by("revision")
        .first()
    )
    return domain.revision if first is None else max(0, (first.revision or 0) - 1)


def _before(entries: Iterable[Any]) -> dict[tuple[str, str], Any]:
    """The earliest document of each object that the entries speak of."""
    known = {kind.name for kind in kinds.kinds() if kind.exported and not kind.platform}
    wanted: dict[tuple[str, str], Any] = {}
    final: set[tuple[str, str]] = set()
    for entry in entries:
        slot = (entry.object_type, entry.object_name)
        if entry.object_type not in known:
            continue
        if entry.action in FINAL:
            final.add(slot)
        wanted[slot] = entry.before
    return {slot: document for slot, document in wanted.items() if slot not in final}


def _operations(domain: Domain, wanted: dict[tuple[str, str], Any]) -> list[Operation]:
    current = {
        name: dict(kinds.kind(name).documents(domain)) for name in {kind for kind, _ in wanted}
    }
    found = []
    for (kind, key), document in sorted(wanted.items(), key=lambda item: item[0]):
        held = current[kind].get(key)
        if document == held:
            continue
        if document is None:
            found.append(Operation("delete", domain.name, kind, key))
        else:
            found.append(Operation("put", domain.name, kind, key, document))
    return found
