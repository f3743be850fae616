"""Keys of a simulation's blind epoch: what agents match by, clients read with, and for whom.

Order-preserving attributes are compared by agents themselves (SBM-I of paper 003); there is
no comparator in a simulation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

from brokers.simulation.chance import Chance
from brokers.simulation.plan import ClientSite, Plan
from policyengine.attributes import Conjunction, Join, Literal, Predicate, literal_token, tokens_of
from policyengine.blind import BlindMaster
from policyengine.bundles import (
    BlindAgentEpoch,
    BlindClientEpoch,
    OrderedColumn,
    OrderKey,
    ReadTerm,
)
from policyengine.events import EventTypes
from policyengine.ope import RangeKey, Slot
from policyengine.ope.keys import OrderScheme

_EPOCH = 1
_KEY = 32
_SCHEME: Final[OrderScheme] = "sbm1"
_ORDERED = "order-preserving"
_STATE = "current"
_SUBJECT = "subject."
_EVENT = "event."


class BlindKeys:
    """The blind epoch of a plan.

    Args:
        plan: the domain in plain.
        conjunctions: rule -> the normal form of its expression.
        predicates: what policies ask of subjects beside equality.
        chance: all keys come from here.
    """

    def __init__(
        self,
        plan: Plan,
        conjunctions: Mapping[str, tuple[Conjunction, ...]],
        predicates: tuple[Predicate, ...],
        chance: Chance,
    ) -> None:
        self._plan = plan
        self._types = EventTypes(plan.types)
        self._conjunctions = conjunctions
        self._predicates = predicates
        self._chance = chance

    @cached_property
    def _master(self) -> BlindMaster:
        return BlindMaster.init(
            self._chance.child("master"), domain=self._plan.domain, epoch=_EPOCH
        )

    @cached_property
    def _public(self) -> bytes:
        return self._master.public().to_bytes()

    @cached_property
    def _needed(self) -> bool:
        return any(spec.blind for one in self._plan.types for spec in one.attributes)

    def of_agent(self, clients: Iterable[ClientSite]) -> tuple[BlindAgentEpoch, ...]:
        """What an agent holds for the clients at home there."""
        if not self._needed:
            return ()
        shares = {one.handle: self._master.share(one.handle).to_bytes() for one in clients}
        return (BlindAgentEpoch(_EPOCH, _STATE, self._public, shares),)

    def of_client(self, site: ClientSite) -> tuple[BlindClientEpoch, ...]:
        """What a client holds."""
        if not self._needed:
            return ()
        tokens = tokens_of(site.subject, self._predicates)
        keys, _ = self._master.enrol(site.handle, [tokens], self._chance.child(site.handle))
        return (
            BlindClientEpoch(_EPOCH, _STATE, self._public, keys.to_bytes(), self._read_policies),
        )

    @cached_property
    def _order(self) -> tuple[RangeKey, ...]:
        slots = [
            Slot(self._plan.domain, one.name, spec.name, _EPOCH)
            for one in self._plan.types
            for spec in one.attributes
            if spec.blind == _ORDERED
        ]
        return tuple(
            RangeKey(slot, _SCHEME, self._chance.child(slot.name).token(_KEY)) for slot in slots
        )

    @property
    def columns(self) -> tuple[OrderedColumn, ...]:
        """What agents know of order-preserving attributes."""
        slots = (key.slot for key in self._order)
        return tuple(
            OrderedColumn(slot.type, slot.attribute, slot.epoch, _STATE, _SCHEME) for slot in slots
        )

    @property
    def order_keys(self) -> tuple[OrderKey, ...]:
        """What clients hold of them."""
        return tuple(
            OrderKey(key.slot.type, key.slot.attribute, key.slot.epoch, _STATE, key.to_bytes())
            for key in self._order
        )

    @cached_property
    def _read_policies(self) -> dict[str, dict[str, tuple[ReadTerm, ...]]]:
        found: dict[str, dict[str, tuple[ReadTerm, ...]]] = {}
        for kind in self._types.names:
            sealed = [spec.name for spec in self._types.attributes(kind) if spec.sealed]
            found[kind] = {name: self._readers(kind, name) for name in sealed}
        return found

    def _readers(self, kind: str, name: str) -> tuple[ReadTerm, ...]:
        rules = [
            rule
            for rule in self._plan.rules
            if rule.action == "subscribe"
            and self._types.is_a(kind, rule.type)
            and (rule.attributes is None or name in rule.attributes)
        ]
        return tuple(_term(each) for rule in rules for each in self._conjunctions[rule.name])


def _term(conjunction: Conjunction) -> ReadTerm:
    literals = [one for one in conjunction if isinstance(one, Literal)]
    wanted = {literal_token(one) for one in literals if one.attribute.startswith(_SUBJECT)}
    return ReadTerm(
        tuple(sorted(wanted)),
        tuple(one.to_json() for one in literals if one.attribute.startswith(_EVENT)),
        tuple(_pair(one) for one in conjunction if isinstance(one, Join)),
    )


def _pair(join: Join) -> tuple[str, str]:
    reader, event = join.left, join.right
    return (event, reader) if reader.startswith(_EVENT) else (reader, event)
