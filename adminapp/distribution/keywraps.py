"""Keys of trust groups, sealed by the authority for one agent each, and remembered.

A seal is random, so a fresh one would be another every time: a delta would carry every key again,
and the authority would be asked for each at every revision.
"""

from __future__ import annotations

from adminapp.core.authority import get_authority
from adminapp.distribution.models import SealedWrap
from adminapp.distribution.plan import PlainAgent, PlainDomain, PlainWrap
from policyengine.bundles.model import Wrap
from policyengine.primitives.canonical import pack
from policyengine.primitives.hashing import digest


def wraps_for(domain: PlainDomain, agent: PlainAgent, address: str) -> tuple[Wrap, ...]:
    """The keys that one agent holds, sealed for it; the same until key or agent change."""
    rows = SealedWrap.objects.filter(domain_id=domain.id, audience=address)
    kept = {(row.group, row.epoch): row for row in rows}
    wanted = [held for held in domain.wraps if agent.name in held.agents]
    fresh = [
        SealedWrap(
            domain_id=domain.id,
            audience=address,
            group=held.group,
            epoch=held.epoch,
            wanted=_fingerprint(held, agent),
            sealed=_sealed(held, agent, address),
        )
        for held in wanted
        if not _is_kept(kept.get((held.group, held.epoch)), held, agent)
    ]
    if fresh:
        SealedWrap.objects.bulk_create(
            fresh,
            update_conflicts=True,
            unique_fields=["domain", "audience", "group", "epoch"],
            update_fields=["wanted", "sealed"],
        )
    gone = kept.keys() - {(held.group, held.epoch) for held in wanted}
    if gone:
        SealedWrap.objects.filter(pk__in=[kept[place].pk for place in gone]).delete()
    kept |= {(row.group, row.epoch): row for row in fresh}
    return tuple(
        Wrap(held.group, held.epoch, bytes(kept[held.group, held.epoch].sealed), held.state)
        for held in wanted
    )


def _is_kept(row: SealedWrap | None, held: PlainWrap, agent: PlainAgent) -> bool:
    return row is not None and row.wanted == _fingerprint(held, agent)


def _fingerprint(held: PlainWrap, agent: PlainAgent) -> str:
    return digest(pack(agent.sealing_key, held.key_id.encode(), held.wrapped.encode()))


def _sealed(held: PlainWrap, agent: PlainAgent, address: str) -> bytes:
    return get_authority().wrap_for(
        held.key_id,
        held.wrapped,
        group=held.group,
        epoch=held.epoch,
        recipient=agent.sealing_key,
        audience=address,
    )
