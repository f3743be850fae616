"""The way of every change into audit, revision and outbox."""

from __future__ import annotations

from typing import Any

from django.db.models import F, ProtectedError

from adminapp.audit import services as audit
from adminapp.core.errors import InUse
from adminapp.identity.models import Domain, User
from adminapp.outbox import services as outbox


@audit.change
def record_change(
    *,
    actor: User | None,
    domain: Domain | None,
    action: str,
    object_type: str,
    object_id: object,
    object_name: str,
    before: Any,
    after: Any,
    affects_agents: bool = True,
) -> int:
    """Write the audit entry and, when agents must hear of it, a new revision to be compiled.

    Args:
        domain: whose change it is; None is the platform's, which concerns every domain.
        affects_agents: False leaves revision and outbox alone.

    Returns:
        The domain's revision after the change, 0 for the platform.
    """
    audit.write(
        actor=actor,
        action=action,
        domain_name="" if domain is None else domain.name,
        object_type=object_type,
        object_id=object_id,
        object_name=object_name,
        before=before,
        after=after,
    )
    if domain is None:
        if affects_agents:
            for pk in Domain.objects.order_by("pk").values_list("pk", flat=True):
                _next_revision(pk)
        return 0
    if affects_agents:
        domain.revision = _next_revision(domain.pk)
    return domain.revision


def _next_revision(domain_id: int) -> int:
    Domain.objects.filter(pk=domain_id).update(revision=F("revision") + 1)
    revision: int = Domain.objects.values_list("revision", flat=True).get(pk=domain_id)
    outbox.put(
        topic="compile",
        key=f"compile:{domain_id}:{revision}",
        payload={"domain": domain_id, "revision": revision},
    )
    return revision


def record_row(
    actor: User | None,
    domain: Domain | None,
    action: str,
    row: Any,
    *,
    before: Any = None,
    after: Any = None,
    affects_agents: bool = True,
) -> int:
    """`record_change` for a row; the action's first word is the type of the object."""
    return record_change(
        actor=actor,
        domain=domain,
        action=action,
        object_type=action.partition(".")[0],
        object_id=row.pk,
        object_name=str(row),
        before=before,
        after=after,
        affects_agents=affects_agents,
    )


def delete_row(row: Any, message: str) -> None:
    """Delete a row, or say that others stand on it."""
    try:
        row.delete()
    except ProtectedError as error:
        raise InUse(message) from error
