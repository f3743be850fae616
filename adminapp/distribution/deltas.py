"""Whether an audience is sent what changed or everything.

Of what was built last the control plane keeps the hashes of its entries: enough to tell what
changed, and nothing that could be read.
"""

from __future__ import annotations

from adminapp.distribution.models import Bundle, BundleChunk, ContentOutline, Recipient
from policyengine.bundles.deltas import Delta, difference_from
from policyengine.bundles.entries import Entries
from policyengine.bundles.envelope import SealedBundle
from policyengine.errors import InputError
from policyengine.primitives.canonical import dumps

# A whole heals whatever went wrong before, so a delta must be worth it.
WORTH_IT = 2


def choose(domain_id: int, address: str, previous: str, entries: Entries) -> Delta | None:
    """What changed since the bundle that an audience acknowledged; None where it gets a whole.

    Args:
        domain_id: the domain.
        address: the audience.
        previous: digest of the bundle that it acknowledged last, "" where that is not known.
        entries: the content that it shall hold.
    """
    if not previous or not _reads_deltas(domain_id, address):
        return None
    rows = ContentOutline.objects.filter(audience=address, domain_id=domain_id, digest=previous)
    held = rows.values_list("entries", flat=True).first()
    if held is None:
        return None
    try:
        delta = difference_from(bytes(held), entries)
    except InputError:
        return None  # it differs in more places than a delta may have
    size = len(dumps(delta.to_json()))
    return delta if size * WORTH_IT <= entries.size else None


def remember(bundle: Bundle, sealed: SealedBundle, outline: bytes) -> None:
    """Keep a bundle's chunks and the outline of its content; call it where the row is written."""
    bundle.chunks.all().delete()
    BundleChunk.objects.bulk_create(
        BundleChunk(bundle=bundle, number=number, message=message)
        for number, message in enumerate(sealed.chunks)
    )
    row = ContentOutline(
        audience=bundle.audience,
        domain_id=bundle.domain_id,
        digest=sealed.digest,
        entries=outline,
    )
    ContentOutline.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["audience", "domain"],
        update_fields=["digest", "entries"],
    )


def _reads_deltas(domain_id: int, address: str) -> bool:
    """Whether the audience said so when it asked for its last lease."""
    rows = Recipient.objects.filter(audience=address, domain_id=domain_id)
    return "deltas" in (rows.values_list("reads", flat=True).first() or ())
