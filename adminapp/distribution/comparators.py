"""Comparators: processes beside agents that alone can open what agents compare (paper 003)."""

from __future__ import annotations

from collections.abc import Collection

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import Invalid
from adminapp.distribution import blindepochs
from adminapp.distribution.models import Bundle, Comparator
from adminapp.identity import mapping, permissions
from adminapp.identity.models import Domain, User
from adminapp.identity.services import record_change
from policyengine.bundles.addresses import audience


def of(domain: Domain) -> list[Comparator]:
    """The comparators that hold keys of a domain, by name."""
    return list(Comparator.objects.filter(domains=domain).order_by("name"))


@audit.change
def register(
    *,
    actor: User | None,
    name: str,
    domains: Collection[Domain],
    sealing_key: bytes | str,
    verify_key: bytes | str,
) -> Comparator:
    """Let a comparator with these public keys have the keys of domains.

    Again with the same keys it adds domains, and changes nothing where it has them.

    Raises:
        Forbidden: the actor is no operator.
        Invalid: the name is none, or has other keys.
    """
    permissions.require_operator(actor)
    keys = {
        "sealing_key": mapping.public_key(sealing_key, "sealing_key"),
        "verify_key": mapping.public_key(verify_key, "verify_key"),
    }
    row = Comparator.objects.filter(name=name).first()
    if row is None:
        row = versions.create(Comparator(name=name, **keys))
    if any(getattr(row, field) != value for field, value in keys.items()):
        raise Invalid.at("/name", f"comparator `{name}` is registered with other keys")
    held = set(row.domains.values_list("pk", flat=True))
    for domain in domains:
        if domain.pk not in held:
            row.domains.add(domain)
            _record(actor, domain, row, "comparator.registered", before=False)
    return row


@audit.change
def remove(*, actor: User | None, name: str, domains: Collection[Domain]) -> None:
    """Take the keys of domains from a comparator: new ones follow that it does not get.

    Raises:
        Forbidden: the actor is no operator.
    """
    permissions.require_operator(actor)
    for row in Comparator.objects.filter(name=name):
        for domain in domains:
            if row.domains.filter(pk=domain.pk).exists():
                row.domains.remove(domain)
                # nothing of it is to be renewed or sent again
                Bundle.objects.filter(audience=audience("comparator", name), domain=domain).delete()
                held = blindepochs.current(domain)
                if held is not None:
                    blindepochs.note_due(held, f"comparator {name} was removed")
                _record(actor, domain, row, "comparator.removed", before=True)


def _record(
    actor: User | None, domain: Domain, row: Comparator, action: str, *, before: bool
) -> None:
    document = {"name": row.name, "sealing_key": row.sealing_key, "verify_key": row.verify_key}
    record_change(
        actor=actor,
        domain=domain,
        action=action,
        object_type="comparator",
        object_id=row.pk,
        object_name=row.name,
        before=document if before else None,
        after=None if before else document,
    )
