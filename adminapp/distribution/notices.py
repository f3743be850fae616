"""The notices of a revocation, signed and sealed for their agents a few at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adminapp.core.authority import get_authority
from adminapp.distribution import recipients
from adminapp.distribution.models import Notice, Revocation
from policyengine.bundles import messages


def sealed(notice_ids: Sequence[int]) -> list[Notice]:
    """Notices of one revocation that were not acknowledged yet, each with its sealed message.

    Those without one are signed together: the authority writes its journal once for all of them.
    """
    rows = list(
        Notice.objects.select_related("domain", "revocation__principal", "revocation__domain")
        .filter(pk__in=notice_ids)
        .exclude(state=Notice.State.APPLIED)
        .order_by("pk")
    )
    missing = [row for row in rows if row.message is None]
    if not missing:
        return rows
    _seal(missing)
    mine = [row.pk for row in missing]
    # Somebody else may have been quicker, and may have sent it: one message for each is kept.
    Notice.objects.filter(message__isnull=True).bulk_update(missing, ["message"])
    kept = dict(Notice.objects.filter(pk__in=mine).values_list("pk", "message"))
    for row in missing:
        row.message = kept[row.pk]
    return rows


def _seal(rows: Sequence[Notice]) -> None:
    revocation = rows[0].revocation
    documents = [_document(row, revocation) for row in rows]
    payloads = [messages.notice_payload(document) for document in documents]
    found = get_authority().sign_notices(payloads, about=_about(revocation))
    signatures: Mapping[bytes, bytes] = dict(zip(payloads, found, strict=True))
    keys = recipients.sealing_keys([row.audience for row in rows])
    for row, document in zip(rows, documents, strict=True):
        row.message = messages.seal_notice(
            document,
            sign=lambda _context, payload: signatures[payload],
            recipient=keys[row.audience],
        )


def _document(row: Notice, revocation: Revocation) -> messages.Notice:
    return messages.Notice(
        number=row.number,
        audience=row.audience,
        domain=row.domain.name,
        revocation=revocation.uid,
        deny=_denied(revocation),
        reason="revoked",
        issued=int(revocation.created.timestamp()),
        floors=messages.Floors.from_json(row.floors),
    )


def _about(revocation: Revocation) -> dict[str, str]:
    """What the authority's journal is to know of it, for a database that has forgotten it."""
    handle = revocation.principal.handle if revocation.principal else ""
    named = {"kind": str(revocation.kind), "of": revocation.domain.name, "handle": handle}
    return {**{name: str(value) for name, value in revocation.subject.items()}, **named}


def _denied(revocation: Revocation) -> tuple[str, ...]:
    """Handles that are denied for good: everything else ends with a newer policy."""
    if revocation.kind != Revocation.Kind.PRINCIPAL or revocation.principal is None:
        return ()
    return (revocation.principal.handle,)
