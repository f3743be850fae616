"""Erasing a principal: what identifies it goes, and what happened stays.

The principal's handle says nothing and stays: it is the pseudonym under which queues, receipts and
the audit speak of it. Every other area that keeps something of principals registers an eraser.
"""

from __future__ import annotations

from django.utils import timezone

from adminapp.audit import erasure
from adminapp.audit import services as audit
from adminapp.core import journal, versions
from adminapp.core.errors import InUse, Invalid
from adminapp.identity import credentials, mapping, permissions, ports
from adminapp.identity.models import Principal, User
from adminapp.identity.recording import record_row

MAX_REASON = 500


@audit.change
def erase_principal(
    *,
    actor: User | None,
    principal: Principal,
    reason: str,
    expected_version: int | None = None,
) -> Principal:
    """Take from a revoked principal its name, attributes, keys and certificate, for good.

    Its past entries in the audit can no longer be read by anybody; that they are there, in which
    order and by whom made, still can be verified.

    Args:
        reason: why, without naming the person: it stays.
    """
    permissions.require_manager(actor, principal.domain)
    if not reason.strip() or len(reason) > MAX_REASON:
        raise Invalid.at("/reason", f"say why, in at most {MAX_REASON} characters")
    row = versions.locked(principal, expected_version)
    if row.state != Principal.State.REVOKED:
        raise InUse("only a principal that was revoked can be erased; revoke it first")
    if row.erased_at is not None:
        raise InUse("this principal was erased already")
    for erase in ports.erasers():
        erase(row)
    row.name, row.attributes, row.erased_at = pseudonym(row), {}, timezone.now()
    row.sealing_key = row.verify_key = ""
    credentials.clear_certificate(row)
    versions.save(row)
    row.homes.all().delete()
    erasure.erase_person(pseudonym=row.handle)
    book = journal.current()
    assert book is not None
    book.message = book.message or f"erased: {reason.strip()}"
    # Neither document holds anything of the person: an entry about erasure must not need erasing.
    document = mapping.principal_at(row, ())
    record_row(
        actor, row.domain, "principal.erased", row, before=document, after=document, revokes=True
    )
    return row


def pseudonym(row: Principal) -> str:
    """What an erased principal is called."""
    return f"erased-{row.handle}"
