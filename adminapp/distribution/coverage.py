"""Which agent holds which epoch of which key, and who loses what when one ends.

Told from signed acknowledgements: an agent signs the digest of the bundle that it applied, and
that bundle's keys are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.utils import timezone

from adminapp.catalog.models import AttributeKey
from adminapp.distribution.blindepochs import live as live_blind
from adminapp.distribution.models import Recipient
from adminapp.distribution.serving import serving_agents
from adminapp.identity.lineage import lineage
from adminapp.identity.models import Domain
from adminapp.trustgroups import mapping
from adminapp.trustgroups.models import KeyEpoch
from adminapp.trustgroups.selectors import agents_for, live_epochs

BLIND = "blind"


@dataclass(frozen=True)
class Cell:
    """One epoch at one agent.

    Args:
        epoch: its number.
        state: what it is in the control plane.
        held: what it is at the agent; "" where the agent does not hold it.
    """

    epoch: int
    state: str
    held: str


@dataclass(frozen=True)
class AgentCoverage:
    """One agent's epochs of one key.

    Args:
        agent: its name.
        entitled: whether it is to hold the key.
        silent: whether its lease has ended; what it held then it may hold still.
        believed: whether what it says that it holds was built for it.
        cells: every epoch that lives, or that it holds.
    """

    agent: str
    entitled: bool
    silent: bool
    believed: bool
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class KeyCoverage:
    """One key: its epochs that live, and every agent that is to hold it or holds it."""

    key: str
    epochs: tuple[int, ...]
    agents: tuple[AgentCoverage, ...]


def coverage(domain: Domain) -> list[KeyCoverage]:
    """Every key of the domain that has epochs."""
    states: dict[str, dict[int, str]] = {}
    for row in live_epochs(domain).order_by("group_ref", "number"):
        states.setdefault(row.group_ref, {})[row.number] = row.state
    for ring in live_blind(domain):
        states.setdefault(BLIND, {})[ring.number] = ring.state
    serving = [agent.name for agent in serving_agents(domain)]
    rows = Recipient.objects.filter(domain=domain, audience__startswith="agent:")
    held = {row.audience.partition(":")[2]: row for row in rows}
    return [_key(domain, key, epochs, serving, held) for key, epochs in sorted(states.items())]


def _key(
    domain: Domain,
    key: str,
    epochs: Mapping[int, str],
    serving: Iterable[str],
    held: Mapping[str, Recipient],
) -> KeyCoverage:
    names = set(serving)
    entitled = names if key == BLIND else {a.name for a in agents_for(domain, key)} & names
    keeps = {name for name, row in held.items() if key in row.keys and name in names}
    found = [
        _agent(name, name in entitled, epochs, held.get(name), key)
        for name in sorted(entitled | keeps)
    ]
    return KeyCoverage(key, tuple(sorted(epochs)), tuple(found))


def _agent(
    name: str, entitled: bool, epochs: Mapping[int, str], row: Recipient | None, key: str
) -> AgentCoverage:
    mine = {} if row is None else {int(n): s for n, s in row.keys.get(key, {}).items()}
    cells = tuple(
        Cell(number, epochs.get(number, KeyEpoch.State.RETIRED), mine.get(number, ""))
        for number in sorted({*epochs, *mine})
    )
    silent = row is None or row.leased_until is None or row.leased_until < timezone.now()
    lies = row is not None and row.state == Recipient.State.CONTRADICTS
    return AgentCoverage(name, entitled, silent, not lies, cells)


@dataclass(frozen=True)
class Losses:
    """Who loses what when an epoch ends at once.

    Args:
        key: reference of the key.
        epoch: its number.
        attributes: what stands sealed under the key, as `Type.attribute`.
        holders: agents that hold the epoch: what waits with them sealed under it is lost.
        successor: agents of these that hold a newer epoch already.
        without: agents of these that hold no newer one: they open and seal nothing under this
            key until they applied the next revision.
        replaced: whether the next epoch begins with it, since this one seals.
    """

    key: str
    epoch: int
    attributes: tuple[str, ...]
    holders: tuple[str, ...]
    successor: tuple[str, ...]
    without: tuple[str, ...]
    replaced: bool


def losses(epoch: KeyEpoch) -> Losses:
    """What `trustgroups.emergency.retire_now` would take from whom, from what agents signed."""
    rows = Recipient.objects.filter(domain=epoch.domain_id, audience__startswith="agent:")
    held = {
        row.audience.partition(":")[2]: {int(number) for number in row.keys[epoch.group_ref]}
        for row in rows
        if epoch.group_ref in row.keys
    }
    holders = sorted(name for name, numbers in held.items() if epoch.number in numbers)
    newer = [name for name in holders if max(held[name]) > epoch.number]
    return Losses(
        key=epoch.group_ref,
        epoch=epoch.number,
        attributes=_protected(epoch),
        holders=tuple(holders),
        successor=tuple(newer),
        without=tuple(name for name in holders if name not in newer),
        replaced=epoch.state == KeyEpoch.State.CURRENT,
    )


def _protected(epoch: KeyEpoch) -> tuple[str, ...]:
    kind, _, name = epoch.group_ref.partition(":")
    if f"{kind}:" != mapping.KEY:
        return ()
    keys = AttributeKey.objects.filter(domain__in=lineage(epoch.domain), name=name)
    found = keys.values_list("attributes__event_type__name", "attributes__name")
    return tuple(sorted({f"{kind}.{attribute}" for kind, attribute in found if attribute}))
