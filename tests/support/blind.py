"""A clinic whose readings agents carry, match and deliver without reading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from brokers.client.blind import AskedFor
from brokers.client.parts import make_part
from brokers.client.policy import ClientPolicy
from brokers.client.wish import Wish, seal_wish
from brokers.data.handle import Effects
from policyengine.attributes import AttributeType, Literal, conjunction_tokens, tokens_of
from policyengine.blind import BlindMaster
from policyengine.bundles import (
    AgentContent,
    BlindAgentEpoch,
    BlindClientEpoch,
    ClientContent,
    Delivery,
    EpochKey,
    FilterAnswer,
    FilterRequest,
    PublicationPart,
    ReadTerm,
    encode_framed,
    seal_publication,
    seal_secret,
    split_audience,
)
from policyengine.events import AttributeSpec, EventTypes, TypeSpec
from policyengine.primitives.canonical import b64
from policyengine.primitives.rand import SeededRandom
from tests.support.data_plane import Agent, Client, Organisation, Policy
from tests.support.pure_agents import NOW, PureAgent, client_policy, deliveries

TEXT = AttributeType("string")
PULSE = AttributeType("int", 0, 300)
TYPES = (
    TypeSpec(
        "Reading",
        None,
        (
            AttributeSpec("ward", TEXT),
            AttributeSpec("patient", TEXT, blind="searchable", sealed=True),
            AttributeSpec("pulse", PULSE, blind="searchable", sealed=True),
            AttributeSpec("trial", TEXT, blind="searchable"),
        ),
    ),
    TypeSpec("EcgReading", "Reading", (AttributeSpec("leads", AttributeType("int", 1, 12)),)),
)
READING: Mapping[str, Any] = {
    "ward": "north",
    "patient": "Alice Asphodel",
    "pulse": 171,
    "trial": "trial-zeta",
}
SECRETS = ("Alice Asphodel", "Asphodel", "trial-zeta")
"""What no agent and no broker may see. (171 alone may stand in any ciphertext's length.)"""


@lru_cache
def _master(domain: str, epoch: int) -> BlindMaster:
    return BlindMaster.init(SeededRandom(f"{domain} {epoch}".encode()), domain=domain, epoch=epoch)


@lru_cache
def _keys(domain: str, epoch: int, handle: str, variants: tuple[tuple[str, ...], ...]) -> bytes:
    return _master(domain, epoch).enrol(handle, variants)[0].to_bytes()


@dataclass
class BlindOrganisation(Organisation):
    """An organisation with blind epochs.

    Args:
        blind_epochs: number -> state.
        unshared: handles of which no agent holds a share any more.
        by_filters: handles of clients that ask for the keys of their filters.
    """

    blind_epochs: dict[int, str] = field(default_factory=lambda: {1: "current"})
    unshared: set[str] = field(default_factory=set)
    by_filters: set[str] = field(default_factory=set)

    def agent_content(self, name: str) -> AgentContent:
        """What an agent holds."""
        own = [one.handle for one in self._own_clients(self.agents[name])]
        blind = tuple(
            BlindAgentEpoch(
                epoch,
                state,
                _master(self.domain, epoch).public().to_bytes(),
                {
                    handle: _master(self.domain, epoch).share(handle).to_bytes()
                    for handle in own
                    if handle not in self.unshared
                },
            )
            for epoch, state in self.blind_epochs.items()
        )
        return replace(super().agent_content(name), blind=blind)

    def client_content(self, handle: str) -> ClientContent:
        """What a client holds."""
        variants = () if handle in self.by_filters else (self._tokens(handle),)
        blind = tuple(
            BlindClientEpoch(
                epoch,
                state,
                _master(self.domain, epoch).public().to_bytes(),
                _keys(self.domain, epoch, handle, variants),
                self._read_policies(),
            )
            for epoch, state in self.blind_epochs.items()
        )
        return replace(super().client_content(handle), blind=blind)

    def _tokens(self, handle: str) -> tuple[str, ...]:
        named = {f"subject.{n}": v for n, v in self.clients[handle].subject.items()}
        return tokens_of(named, self._predicates("subject."))

    def filter_answer(self, asked: FilterRequest) -> FilterAnswer:
        """The keys of a filter, where some policy's subject side and attributes let it."""
        _, handle = split_audience(asked.audience)
        tokens = self._tokens(handle)
        closed = [name for name in asked.attributes if not self._reads(tokens, asked.type, name)]
        if closed:
            return FilterAnswer(**vars(asked), reason=f"{handle} may not read {closed[0]}")
        return FilterAnswer(
            **vars(asked),
            keys=tuple(self._filter_key(asked, handle, epoch) for epoch in self.blind_epochs),
        )

    def _reads(self, tokens: tuple[str, ...], event_type: str, name: str) -> bool:
        ways = self._read_policies().get(event_type, {}).get(name, ())
        return any(set(term.subject) <= set(tokens) for term in ways)

    def _filter_key(self, asked: FilterRequest, handle: str, epoch: int) -> EpochKey:
        sealed = seal_secret(
            "filter",
            _keys(self.domain, epoch, handle, (self._tokens(handle),)),
            domain=self.domain,
            epoch=epoch,
            name=asked.type,
            recipient=self.clients[handle].keys.sealing.public,
            audience=asked.audience,
        )
        return EpochKey(epoch, sealed)

    def _read_policies(self) -> dict[str, dict[str, tuple[ReadTerm, ...]]]:
        types = EventTypes(self.types)
        found: dict[str, dict[str, tuple[ReadTerm, ...]]] = {}
        for kind in types.names:
            sealed = [spec.name for spec in types.attributes(kind) if spec.blind and spec.sealed]
            about = [
                policy
                for policy in self.policies
                if policy.action == "subscribe" and types.is_a(kind, policy.type)
            ]
            found[kind] = {
                name: tuple(
                    term
                    for policy in about
                    if policy.attributes is None or name in policy.attributes
                    for term in self._terms(policy)
                )
                for name in sealed
            }
        return found

    def _terms(self, policy: Policy) -> list[ReadTerm]:
        subjects, events = self._conjunctions(policy)
        return [
            ReadTerm(
                tuple(sorted(conjunction_tokens(subject))),
                tuple(one.to_json() for one in event if isinstance(one, Literal)),
            )
            for subject in subjects
            for event in events
        ]


def clinic(*, suffix: str = "", **changes: Any) -> BlindOrganisation:
    """Readings of patients: two agents on overlay a, one on b.

    Doctors read everything, nurses all but the patient, the alarm only a pulse above 120, and
    archivists only what is in clear.
    """
    policies = (
        Policy("devices", "publish", "Reading", 'subject.role == "device"'),
        Policy(
            "scales", "publish", "Reading", 'subject.role == "scale"', attributes=("ward", "pulse")
        ),
        Policy("doctors", "subscribe", "Reading", 'subject.role == "doctor"'),
        Policy(
            "nurses", "subscribe", "Reading", 'subject.role == "nurse"',
            attributes=("ward", "pulse", "trial"),
        ),
        Policy(
            "alarms", "subscribe", "Reading", 'subject.role == "alarm"', "event.pulse > 120",
            ("ward", "pulse"),
        ),
        Policy(
            "archives", "subscribe", "Reading", 'subject.role == "archive"', attributes=("ward",)
        ),
    )  # fmt: skip
    alpha, beta, gamma = (name + suffix for name in ("alpha", "beta", "gamma"))
    roles = {
        "p-device": ("device", alpha),
        "p-scale": ("scale", alpha),
        "p-doctor": ("doctor", beta),
        "p-nurse": ("nurse", beta),
        "p-alarm": ("alarm", beta),
        "p-archive": ("archive", beta),
        "p-visitor": ("visitor", beta),
    }
    clients = [
        Client(handle + suffix, {"role": role}, {"a": home, "b": gamma})
        for handle, (role, home) in roles.items()
    ]
    agents = [Agent(alpha, "a"), Agent(beta, "a"), Agent(gamma, "b")]
    made: dict[str, Any] = {
        "domain": "clinic",
        "types": TYPES,
        "policies": policies,
        "agents": {agent.name: agent for agent in agents},
        "clients": {client.handle: client for client in clients},
    }
    return BlindOrganisation(**{**made, **changes})


def forms_of(secret: str) -> list[bytes]:
    """A text as it may stand in bytes: plain, in JSON, in base64 at any offset."""
    plain = secret.encode()
    shifted = [b64(b" " * offset + plain).encode()[4:-4] for offset in range(3)]
    # shorter ones stand in any ciphertext by chance
    found = [plain, plain.lower(), plain.hex().encode(), *shifted]
    return [form for form in found if len(form) >= 8]


# clients as pure functions


def blind_part(
    organisation: Organisation,
    handle: str,
    values: Mapping[str, Any],
    *,
    event_type: str = "Reading",
    identifier: str = "0" * 32,
    part: int = 0,
    policy: ClientPolicy | None = None,
) -> PublicationPart:
    """One part as its publisher signs it."""
    policy = policy or client_policy(organisation, handle)
    return make_part(
        policy,
        policy.plan(event_type, values)[part],
        domain=organisation.domain,
        publisher=handle,
        publication=identifier,
        event_type=event_type,
        values=values,
        issued=NOW,
    )


def message_of(organisation: Organisation, part: PublicationPart, agent: str) -> bytes:
    """The message with a part, for an agent."""
    sealed = seal_publication(
        part,
        signing_key=organisation.clients[part.publisher].keys.signing,
        recipient=organisation.agents[agent].keys.sealing.public,
        agent=agent,
    )
    return encode_framed("publication", sealed)


def subscribe(
    agent: PureAgent,
    handle: str,
    text: str = "",
    *,
    event_type: str = "Reading",
    asked: AskedFor | None = None,
) -> Effects:
    """Send a subscription as the client's library does, and keep it where it is accepted."""
    organisation = agent.organisation
    policy = client_policy(organisation, handle)
    sealed = seal_wish(
        Wish.of(event_type, text),
        "subscribe",
        next(home for home in policy.homes.values() if home.agent == agent.name),
        domain=organisation.domain,
        client=handle,
        request=f"{len(agent.seen):032x}",
        issued=NOW,
        signing_key=organisation.clients[handle].keys.signing,
        asked=asked or policy.blind.ask(event_type, text),
    )
    effects = agent.client_message(encode_framed("subscribe", sealed))
    agent.subscriptions += effects.subscribed
    return effects


def received(organisation: Organisation, effects: Effects) -> dict[str, list[Delivery]]:
    """What clients have after opening what is theirs: handle -> deliveries."""
    return {
        handle: [client_policy(organisation, handle).blind.open(one) for one in found]
        for handle, found in deliveries(organisation, effects.outgoing).items()
    }
