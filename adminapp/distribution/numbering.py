"""Revisions go on above what the authority has signed, whatever became of the database."""

from __future__ import annotations

from adminapp.audit import services as audit
from adminapp.core.authority import get_authority
from adminapp.identity.models import Domain
from adminapp.identity.services import record_change


def overtake(domain_id: int, refused: int) -> None:
    """Have a domain compiled again under a number that the authority will sign.

    It signs no revision again with another content and none that goes back. That meets a
    compile that was slower than the next one, which needs nothing; bundles made again after
    the clock changed what they say; and a database from before what was signed.

    Args:
        domain_id: the domain.
        refused: the revision that it would not sign.
    """
    domain = Domain.objects.get(pk=domain_id)
    signed = get_authority().signed_revision(domain.name)
    if domain.revision <= max(signed, refused):
        _raise_above(domain=domain, signed=signed)


@audit.change
def _raise_above(*, domain: Domain, signed: int) -> None:
    before = domain.revision
    Domain.objects.filter(pk=domain.pk, revision__lt=signed).update(revision=signed)
    record_change(
        actor=None,
        domain=domain,
        action="domain.revision-raised",
        object_type="domain",
        object_id=domain.pk,
        object_name=domain.name,
        before={"revision": before},
        after={"signed": signed},
    )
