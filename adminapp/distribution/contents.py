"""What goes into bundles: a plain domain and its epochs become contents for agents and clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from adminapp.distribution import blindkeys, encodings, epochs, keywraps
from adminapp.distribution.blindplan import BlindPlan
from adminapp.distribution.models import EncodingEpoch
from adminapp.distribution.plan import (
    AgentPlan,
    PlainAgent,
    PlainDomain,
    PlainSubject,
    event_predicates,
    plan_agent,
    proof_predicates,
    published_types,
)
from policyengine.anonset import tag
from policyengine.bundles import BlindAgentEpoch, BlindClientEpoch, OrderKey, addresses
from policyengine.bundles.model import (
    AgentContent,
    AgentRef,
    ClientContent,
    ClientRef,
    ComparatorContent,
    EncodedRule,
    EncodedSubject,
    EpochContent,
    HomeAgent,
    TagKey,
)
from policyengine.bundles.ordered import OrderedColumn
from policyengine.events import EventTypes, TypeSpec
from policyengine.primitives.prf import prf

# How long a subscriber's client waits for the other parts of a split event.
WINDOW_SECONDS = 60
_PUBLISHING_KINDS = ("publisher", "service")


@dataclass(frozen=True)
class PlainComparator:
    """A comparator: its name and public sealing key."""

    name: str
    sealing_key: bytes


@dataclass(frozen=True)
class Snapshot:
    """A domain, its living epochs and its notices, read at one revision.

    `again` are those who have again what was revoked, see `rights`.
    """

    domain: PlainDomain
    epochs: tuple[EncodingEpoch, ...]
    notices: Mapping[str, int]
    rings: tuple[blindkeys.Ring, ...] = ()
    comparators: tuple[PlainComparator, ...] = ()
    again: Mapping[int, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def blind(self) -> BlindPlan:
        """What the hidden attributes ask for."""
        return BlindPlan(self.domain)

    @cached_property
    def tag_keys(self) -> Mapping[tuple[int, str], bytes]:
        """The key that publishers tag with, by the epoch's number and the overlay's name."""
        return {
            (epoch.number, overlay): epochs.tag_key(epoch, overlay)
            for epoch in self.epochs
            for overlay in self.domain.overlays
        }

    @cached_property
    def client_keys(self) -> tuple[Mapping[str, bytes], ...]:
        """Of each ring the keys of everybody concerned, by handle."""
        subjects = {subject.handle: subject for subject in self.domain.subjects}
        clients = [
            blindkeys.client_of(self.blind, subjects[handle]) for handle in self.blind.readers
        ]
        return tuple(ring.enrol(clients) for ring in self.rings)


def agent_content(snapshot: Snapshot, agent: PlainAgent) -> AgentContent:
    """Everything that one agent holds of the domain."""
    domain = snapshot.domain
    peers = [peer for peer in domain.agents if peer.overlay == agent.overlay]
    address = addresses.audience("agent", agent.name)
    return AgentContent(
        domain=domain.name,
        agent=agent.name,
        overlay=agent.overlay,
        lease_seconds=domain.lease_seconds,
        types=domain.types,
        agents=tuple(
            AgentRef(peer.name, peer.overlay, peer.sealing_key, peer.verify_key) for peer in peers
        ),
        clients=tuple(
            ClientRef(client.handle, client.sealing_key, client.verify_key)
            for client in domain.at_home(agent)
        ),
        epochs=tuple(_epoch_content(snapshot, agent, epoch) for epoch in snapshot.epochs),
        wraps=keywraps.wraps_for(domain, agent, address),
        notices_through=snapshot.notices.get(address, 0),
        blind=_agent_blind(snapshot, agent),
        ordered=_columns(snapshot),
        splits=_parts_over(domain, agent.overlay),
        decisions=domain.decisions,
    )


def _parts_over(domain: PlainDomain, overlay: str) -> dict[str, list[str]]:
    """What the part of each split type that travels over an overlay may carry."""
    types = EventTypes(TypeSpec.from_json(spec) for spec in domain.types)
    found: dict[str, list[str]] = {}
    for name, parts in domain.splits.items():
        placed = {each for part in parts for each in part["attributes"]}
        for number, part in enumerate(parts):
            if part["overlay"] == overlay:
                # What no part names travels in the first one.
                free = (spec.name for spec in types.attributes(name) if spec.name not in placed)
                found[name] = [*part["attributes"], *(free if number == 0 else ())]
    return found


def comparator_content(snapshot: Snapshot, comparator: PlainComparator) -> ComparatorContent:
    """Everything that a comparator holds of one domain: keys that open, and no other."""
    address = addresses.audience("comparator", comparator.name)
    pairs = snapshot.blind.every_ordered
    found = tuple(
        OrderKey(kind, name, ring.epoch.number, ring.epoch.state, sealed, sealed=True)
        for ring in snapshot.rings
        if ring.epoch.scheme == "sbm2" and pairs
        for (kind, name), sealed in ring.orders(address, comparator.sealing_key, pairs).items()
    )
    return ComparatorContent(snapshot.domain.name, comparator.name, found)


def client_content(snapshot: Snapshot, subject: PlainSubject) -> ClientContent:
    """Everything that one client holds: tag keys and predicates only where it publishes."""
    domain = snapshot.domain
    published = published_types(domain, subject)
    local = not subject.agreements
    publishes = bool(published) or (local and subject.kind in _PUBLISHING_KINDS)
    predicates = event_predicates(domain, published) if publishes else ()
    told = snapshot.blind.told(subject, published) if publishes else ()
    return ClientContent(
        domain=domain.name,
        handle=subject.handle,
        homes=_homes(domain, subject.homes),
        fallbacks=_homes(domain, subject.seconds),
        types=domain.types if local else _opened_types(domain, subject),
        splits=_splits(domain, subject) if publishes else {},
        tag_keys=_tag_keys(snapshot, subject) if publishes else (),
        predicates=tuple(predicate.to_json() for predicate in (*predicates, *told)),
        publishes=published,
        window_seconds=WINDOW_SECONDS,
        blind=_client_blind(snapshot, subject),
        ordered=_ordered(snapshot, subject),
    )


def _opened_types(domain: PlainDomain, guest: PlainSubject) -> tuple[Mapping[str, Any], ...]:
    """The types that a guest's agreements open, with what they share events with."""
    concerned = {
        name
        for policy in domain.policies
        if policy.agreement in guest.agreements
        for name in domain.families[policy.type]
    }
    return tuple(spec for spec in domain.types if spec["name"] in concerned)


def _agent_blind(snapshot: Snapshot, agent: PlainAgent) -> tuple[BlindAgentEpoch, ...]:
    if not snapshot.blind.any:
        return ()
    readers = snapshot.blind.readers
    # INVARIANT: a share stands with the client's home alone; without it nothing is read.
    handles = [one.handle for one in snapshot.domain.at_home(agent) if one.handle in readers]
    return tuple(
        BlindAgentEpoch(
            epoch=ring.epoch.number,
            state=ring.epoch.state,
            public=ring.public,
            shares=ring.shares(agent.name, agent.sealing_key, handles),
            sealed=True,
        )
        for ring in snapshot.rings
    )


def _columns(snapshot: Snapshot) -> tuple[OrderedColumn, ...]:
    return tuple(
        OrderedColumn(kind, name, ring.epoch.number, ring.epoch.state, ring.epoch.scheme)
        for ring in snapshot.rings
        for kind, name in snapshot.blind.every_ordered
    )


def _client_blind(snapshot: Snapshot, subject: PlainSubject) -> tuple[BlindClientEpoch, ...]:
    if subject.handle not in snapshot.blind.readers:
        return ()
    policies = snapshot.blind.read_policies(subject)
    return tuple(
        BlindClientEpoch(
            epoch=ring.epoch.number,
            state=ring.epoch.client_state,
            public=ring.public,
            keys=keys[subject.handle],
            read_policies=policies,
            sealed=True,
        )
        for ring, keys in zip(snapshot.rings, snapshot.client_keys, strict=True)
    )


def _ordered(snapshot: Snapshot, subject: PlainSubject) -> tuple[OrderKey, ...]:
    # INVARIANT: guests have no keys of this domain, whatever an agreement lets them do.
    concerned = snapshot.blind.any and subject.handle in snapshot.blind.readers
    pairs = snapshot.blind.ordered(subject) if concerned else ()
    address = addresses.audience("client", subject.handle)
    return tuple(
        OrderKey(kind, name, ring.epoch.number, ring.epoch.client_state, sealed, sealed=True)
        for ring in snapshot.rings
        for (kind, name), sealed in ring.orders(address, subject.sealing_key, pairs).items()
    )


def _epoch_content(snapshot: Snapshot, agent: PlainAgent, epoch: EncodingEpoch) -> EpochContent:
    domain = snapshot.domain
    tag_key = snapshot.tag_keys[epoch.number, agent.overlay]
    parameters = epochs.parameters_of(epoch)
    held = epochs.blinding(epoch, agent.name)
    key = held.key
    plan = plan_agent(domain, agent, epochs.capacity(parameters))
    items = encodings.items_of(plan, held)
    encoded = encodings.encode(epoch, agent.id, items, key, parameters)
    # Of its own: neither a routing tag nor an encoding can be tested with it.
    proving = any(rule.proof_tokens for rule in plan.rules)
    proof_key = prf(key, "portcullis/proof-key/v1") if proving else b""
    return EpochContent(
        epoch=epoch.number,
        state=epoch.state,
        parameters=parameters.to_json(),
        rules=_rules(plan, held, (tag_key, proof_key), encoded),
        subjects=tuple(
            EncodedSubject(
                handle,
                tuple(
                    encoded[encodings.Kind.SUBJECT, handle, number]
                    for number in range(len(variants))
                ),
            )
            for handle, variants in plan.subjects.items()
        ),
        proof_key=proof_key,
        predicates=tuple(each.to_json() for each in proof_predicates(domain, agent, plan)),
    )


def _rules(
    plan: AgentPlan,
    held: epochs.Blinding,
    tag_keys: tuple[bytes, bytes],
    encoded: Mapping[encodings.Place, bytes],
) -> tuple[EncodedRule, ...]:
    found: list[EncodedRule] = []
    tag_key, proof_key = tag_keys
    for rule in plan.rules:
        name = encodings.rule_id(rule, held)
        found.append(
            EncodedRule(
                id=name,
                # A number, not the policy's name: agents need not read what it is about.
                policy=f"policy-{rule.policy}",
                action=rule.action,
                type=rule.type,
                event_tags=tuple(sorted(tag(tag_key, token) for token in rule.event_tokens)),
                encoded=encoded[encodings.Kind.RULE, name, 0],
                attributes=rule.attributes,
                suppresses=rule.suppresses,
                lowers=rule.lowers,
                proof=tuple(sorted(tag(proof_key, token) for token in rule.proof_tokens)),
                until=rule.until,
                limit=rule.limit,
            )
        )
    return tuple(found)


def _homes(domain: PlainDomain, places: Mapping[str, str]) -> tuple[HomeAgent, ...]:
    by_name = {agent.name: agent for agent in domain.agents}
    found = [by_name[name] for _, name in sorted(places.items())]
    return tuple(
        HomeAgent(agent.name, agent.overlay, agent.sealing_key, agent.verify_key) for agent in found
    )


def _tag_keys(snapshot: Snapshot, subject: PlainSubject) -> tuple[TagKey, ...]:
    # INVARIANT: a publisher holds the key of the epoch it is to tag in and of no other, so that
    # from its switch on nothing new is made in an old epoch.
    current = [e for e in snapshot.epochs if e.client_state == EncodingEpoch.State.CURRENT]
    return tuple(
        TagKey(overlay, epoch.number, "current", snapshot.tag_keys[epoch.number, overlay])
        for epoch in current
        for overlay in sorted(subject.homes)
    )


def _splits(domain: PlainDomain, subject: PlainSubject) -> dict[str, list[dict[str, object]]]:
    """Splits over overlays where this publisher is at home; parts elsewhere could not be sent."""
    return {
        name: [dict(part) for part in parts]
        for name, parts in domain.splits.items()
        if all(part["overlay"] in subject.homes for part in parts)
    }
