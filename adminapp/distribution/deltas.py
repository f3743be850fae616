"""Whether an audience is sent what changed or everything.

Of what was built last the control plane keeps the hashes of its entries: enough to tell what
changed, and nothing that could be read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from adminapp.distribution.models import Bundle, BundleChunk, ContentOutline, Recipient
from policyengine.bundles.deltas import Delta, difference_from
from policyengine.bundles.entries import Entries
from policyengine.bundles.envelope import SealedBundle
from policyengine.errors import InputError
from policyengine.primitives.canonical import dumps

# A whole heals whatever went wrong before, so a delta must be worth it.
WORTH_IT = 2


@dataclass(frozen=True)
class Base:
    """What an audience that reads deltas was built last: its digest, and its content's outline."""

    digest: str
    outline: bytes


@dataclass(frozen=True)
class Remembered:
    """A bundle's row, what was sealed, and the outline of its content."""

    bundle: Bundle
    sealed: SealedBundle
    outline: bytes


def bases(domain_id: int, addresses: Collection[str]) -> dict[str, Base]:
    """Of each audience that reads deltas what one could begin with.

    Whether it does it has said when it asked for its last lease.
    """
    mine = {"domain_id": domain_id, "audience__in": addresses}
    said = Recipient.objects.filter(**mine).values_list("audience", "reads")
    reading = {address for address, reads in said if "deltas" in reads}
    rows = ContentOutline.objects.filter(**mine)
    return {row.audience: Base(row.digest, row.entries) for row in rows if row.audience in reading}


def choose(base: Base | None, previous: str, entries: Entries) -> Delta | None:
    """What changed since the bundle that an audience acknowledged; None where it gets a whole.

    Args:
        base: of the audience, of `bases`.
        previous: digest of the bundle that it acknowledged last, "" where that is not known.
        entries: the content that it shall hold.
    """
    if not previous or base is None or base.digest != previous:
        return None
    try:
        delta = difference_from(bytes(base.outline), entries)
    except InputError:
        return None  # it differs in more places than a delta may have
    size = len(dumps(delta.to_json()))
    return delta if size * WORTH_IT <= entries.size else None


def remember(written: Sequence[Remembered]) -> None:
    """Keep the chunks of bundles and their contents' outlines; call it where rows are written."""
    BundleChunk.objects.filter(bundle__in=[each.bundle for each in written]).delete()
    BundleChunk.objects.bulk_create(
        BundleChunk(bundle=each.bundle, number=number, message=message)
        for each in written
        for number, message in enumerate(each.sealed.chunks)
    )
    ContentOutline.objects.bulk_create(
        (
            ContentOutline(
                audience=each.bundle.audience,
                domain_id=each.bundle.domain_id,
                digest=each.sealed.digest,
                entries=each.outline,
            )
            for each in written
        ),
        update_conflicts=True,
        unique_fields=["audience", "domain"],
        update_fields=["digest", "entries"],
    )
