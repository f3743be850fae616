"""An organisation in plain text, compiled by hand into bundles, and a small control plane.

It shares the engine's primitives with the product and nothing of the control plane's
code, so that it can stand as the other side of the protocol in tests.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from brokers.adapters.files import Keys
from brokers.ports import Outgoing, Transport, TransportError
from policyengine.anonset import Encoder, size_for, tag
from policyengine.attributes import (
    AttributeType,
    Predicate,
    conjunction_tokens,
    evaluate,
    normalise,
    parse,
    predicates_of,
    tokens_of,
)
from policyengine.bundles import (
    FILTER_KEY,
    REQUESTS_QUEUE,
    Acknowledgement,
    AgentContent,
    AgentRef,
    ClientContent,
    ClientRef,
    ComparatorContent,
    EncodedRule,
    EncodedSubject,
    EpochContent,
    FilterAnswer,
    FilterRequest,
    HomeAgent,
    Lease,
    Notice,
    OrderedColumn,
    OrderKey,
    RateLimit,
    SealedBundle,
    TagKey,
    TrustAnchors,
    audience,
    build_bundle,
    control_queue,
    decode_request,
    encode_control,
    seal_filter_answer,
    seal_lease,
    seal_notice,
    split_audience,
    verify_ack,
    verify_filter_request,
    verify_lease_request,
)
from policyengine.errors import DecodeError
from policyengine.events import AttributeSpec, EventTypes, TypeSpec
from policyengine.ope import RangeKey, Slot
from policyengine.ope.keys import OrderScheme
from policyengine.primitives.canonical import b64
from policyengine.primitives.hpke import generate_sealing_key
from policyengine.primitives.prf import prf
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import SigningKey, generate_signing_key, sign
from policyengine.trustgroups import wrap_key

DAY = 86_400
PATIENCE = 90.0
"""Seconds that anything may take on a slow and busy machine."""


def fresh_keys() -> Keys:
    """Keys of an agent or client."""
    return Keys(generate_sealing_key(), generate_signing_key())


@dataclass
class Authority:
    """The signing keys of the trusted authority."""

    policy: SigningKey = field(default_factory=generate_signing_key)
    notice: SigningKey = field(default_factory=generate_signing_key)
    lease: SigningKey = field(default_factory=generate_signing_key)
    receipt: SigningKey = field(default_factory=generate_signing_key)

    def anchors(self) -> TrustAnchors:
        """What audiences pin."""
        return TrustAnchors(
            1, self.policy.public, self.notice.public, self.lease.public, self.receipt.public
        )


@dataclass(frozen=True)
class Policy:
    """One policy in plain text.

    Args:
        name: its name.
        action: `publish` or `subscribe`.
        type: event type; its sub-types are included.
        subject: expression over `subject.*`.
        event: expression over `event.*`, or empty.
        attributes: names it permits, or None for all.
        limit: (count, seconds): how often it lets each publisher publish.
    """

    name: str
    action: str
    type: str
    subject: str
    event: str = ""
    attributes: tuple[str, ...] | None = None
    limit: tuple[int, int] | None = None


@dataclass
class Client:
    """A publisher or subscriber."""

    handle: str
    subject: Mapping[str, str]
    homes: Mapping[str, str]
    keys: Keys = field(default_factory=fresh_keys)
    fallbacks: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Agent:
    """An agent of an overlay."""

    name: str
    overlay: str
    keys: Keys = field(default_factory=fresh_keys)


SUBJECT = {"subject.role": AttributeType("string"), "subject.company": AttributeType("string")}


@dataclass
class Organisation:
    """One domain in plain text."""

    domain: str
    types: tuple[TypeSpec, ...]
    policies: tuple[Policy, ...]
    agents: dict[str, Agent]
    clients: dict[str, Client]
    key_holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    splits: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    authority: Authority = field(default_factory=Authority)
    epochs: dict[int, str] = field(default_factory=lambda: {1: "current"})
    key_states: dict[int, str] = field(default_factory=lambda: {1: "current"})
    lease_seconds: int = 30
    window_seconds: int = 30
    secret: bytes = field(default_factory=lambda: SYSTEM_RANDOM.token(32))
    removed: set[str] = field(default_factory=set)
    notices_through: dict[str, int] = field(default_factory=dict)
    comparators: dict[str, Keys] = field(default_factory=dict)
    order_epochs: dict[int, tuple[str, OrderScheme]] = field(default_factory=dict)

    # keys, all derived from one secret of the test

    def attribute_key(self, name: str, epoch: int) -> bytes:
        """Key of an attribute in an epoch."""
        return prf(self.secret, "attribute", name, str(epoch))

    def overlay_key(self, overlay: str, epoch: int) -> bytes:
        """Key of an overlay's hops in an epoch."""
        return prf(self.secret, "overlay", overlay, str(epoch))

    def tag_key(self, overlay: str, epoch: int) -> bytes:
        """Key of an overlay's routing tags in an epoch."""
        return prf(self.secret, "tag", overlay, str(epoch))

    def order_keys(self) -> list[tuple[RangeKey, str]]:
        """Keys of order-preserving attributes, and the state of each."""
        return [
            (RangeKey(slot, scheme, prf(self.secret, "order", slot.name)), state)
            for epoch, (state, scheme) in self.order_epochs.items()
            for one in self.types
            for attribute in one.attributes
            if attribute.blind == "order-preserving"
            for slot in (Slot(self.domain, one.name, attribute.name, epoch),)
        ]

    # compiling

    @property
    def _parameters(self) -> Any:
        return size_for(16)

    def _event_schema(self, event_type: str) -> dict[str, AttributeType]:
        specs = EventTypes(self.types).attributes(event_type)
        return {f"event.{spec.name}": spec.type for spec in specs}

    def _conjunctions(self, policy: Policy) -> tuple[list[Any], list[Any]]:
        subject = normalise(parse(policy.subject, SUBJECT), SUBJECT)
        schema = self._event_schema(policy.type)
        event = normalise(parse(policy.event, schema), schema) if policy.event else ((),)
        return list(subject), list(event)

    def _predicates(self, prefix: str) -> tuple[Predicate, ...]:
        found = [c for policy in self.policies for side in self._conjunctions(policy) for c in side]
        return predicates_of(found, prefix)

    def _rules(self, agent: Agent, epoch: int, encoder: Encoder) -> tuple[EncodedRule, ...]:
        rules = []
        for policy in self.policies:
            subjects, events = self._conjunctions(policy)
            for i, subject in enumerate(subjects):
                for j, event in enumerate(events):
                    key = self.tag_key(agent.overlay, epoch)
                    tags = tuple(sorted(tag(key, token) for token in conjunction_tokens(event)))
                    rules.append(
                        EncodedRule(
                            id=f"{policy.name}-{i}-{j}",
                            policy=policy.name,
                            action=policy.action,
                            type=policy.type,
                            event_tags=tags,
                            encoded=encoder.encode_policy(conjunction_tokens(subject)),
                            attributes=policy.attributes,
                            limit=policy.limit and RateLimit(policy.name, *policy.limit),
                        )
                    )
        return tuple(rules)

    def _epoch(self, agent: Agent, epoch: int) -> EpochContent:
        key = prf(self.secret, "encoding", agent.name, str(epoch))
        encoder = Encoder(key, self._parameters, random=SYSTEM_RANDOM)
        predicates = self._predicates("subject.")
        subjects = tuple(
            EncodedSubject(
                client.handle,
                (
                    encoder.encode_subject(
                        tokens_of(
                            {f"subject.{n}": v for n, v in client.subject.items()}, predicates
                        )
                    ),
                ),
            )
            for client in self._own_clients(agent)
        )
        return EpochContent(
            epoch=epoch,
            state=self.epochs[epoch],
            parameters=self._parameters.to_json(),
            rules=self._rules(agent, epoch, encoder),
            subjects=subjects,
        )

    def _own_clients(self, agent: Agent) -> list[Client]:
        return [
            client
            for client in self.clients.values()
            if agent.name in (client.homes.get(agent.overlay), client.fallbacks.get(agent.overlay))
            and client.handle not in self.removed
        ]

    def agent_content(self, name: str) -> AgentContent:
        """What an agent holds."""
        agent = self.agents[name]
        address = audience("agent", name)
        wraps = [
            wrap_key(
                group, epoch, key, recipient=agent.keys.sealing.public, audience=address,
                state=state,
            )
            for group, epoch, key, state in self._keys_of(agent)
        ]  # fmt: skip
        return AgentContent(
            domain=self.domain,
            agent=name,
            overlay=agent.overlay,
            lease_seconds=self.lease_seconds,
            types=tuple(spec.to_json() for spec in self.types),
            agents=tuple(
                AgentRef(one.name, one.overlay, one.keys.sealing.public, one.keys.signing.public)
                for one in self.agents.values()
                if one.overlay == agent.overlay
            ),
            clients=tuple(
                ClientRef(one.handle, one.keys.sealing.public, one.keys.signing.public)
                for one in self._own_clients(agent)
            ),
            epochs=tuple(self._epoch(agent, epoch) for epoch in sorted(self.epochs)),
            wraps=tuple(wraps),
            notices_through=self.notices_through.get(address, 0),
            splits=self._parts_over(agent.overlay),
            ordered=tuple(
                OrderedColumn(key.slot.type, key.slot.attribute, key.slot.epoch, state, key.scheme)
                for key, state in self.order_keys()
            ),
        )

    def _parts_over(self, overlay: str) -> dict[str, list[str]]:
        """What the part of each split type that travels over an overlay may carry."""
        types, found = EventTypes(self.types), {}
        for name in types.names:
            above = [each for each in (name, *types.ancestors(name)) if each in self.splits]
            for number, part in enumerate(self.splits[above[0]] if above else ()):
                if part["overlay"] == overlay:
                    others = [one for one in self.splits[above[0]] if one is not part]
                    elsewhere = {each for one in others for each in one["attributes"]}
                    known = [spec.name for spec in types.attributes(name)]
                    listed = part["attributes"]
                    found[name] = [
                        each
                        for each in known
                        if each in listed or (number == 0 and each not in elsewhere)
                    ]
        return found

    def _keys_of(self, agent: Agent) -> list[tuple[str, int, bytes, str]]:
        found = []
        for epoch, state in self.key_states.items():
            overlay = agent.overlay
            found.append((f"overlay:{overlay}", epoch, self.overlay_key(overlay, epoch), state))
            for name, holders in self.key_holders.items():
                if agent.name in holders:
                    found.append((f"key:{name}", epoch, self.attribute_key(name, epoch), state))
        return found

    def client_content(self, handle: str) -> ClientContent:
        """What a client holds."""
        client = self.clients[handle]
        homes = [self.agents[name] for _, name in sorted(client.homes.items())]
        return ClientContent(
            domain=self.domain,
            handle=handle,
            homes=self._home_agents(client.homes),
            fallbacks=self._home_agents(client.fallbacks),
            types=tuple(spec.to_json() for spec in self.types),
            splits=dict(self.splits),
            tag_keys=tuple(
                TagKey(one.overlay, epoch, state, self.tag_key(one.overlay, epoch))
                for epoch, state in self.epochs.items()
                for one in homes
            ),
            predicates=tuple(one.to_json() for one in self._predicates("event.")),
            publishes=tuple(sorted({p.type for p in self.policies if p.action == "publish"})),
            window_seconds=self.window_seconds,
            ordered=tuple(
                OrderKey(key.slot.type, key.slot.attribute, key.slot.epoch, state, key.to_bytes())
                for key, state in self.order_keys()
            ),
        )

    def comparator_content(self, name: str) -> ComparatorContent:
        """What a comparator holds."""
        found = tuple(
            OrderKey(
                key.slot.type, key.slot.attribute, key.slot.epoch, state,
                key.comparator_key().to_bytes(),
            )
            for key, state in self.order_keys()
            if key.scheme == "sbm2"
        )  # fmt: skip
        return ComparatorContent(self.domain, name, found)

    def _home_agents(self, places: Mapping[str, str]) -> tuple[HomeAgent, ...]:
        found = [self.agents[name] for _, name in sorted(places.items())]
        return tuple(
            HomeAgent(one.name, one.overlay, one.keys.sealing.public, one.keys.signing.public)
            for one in found
        )

    def filter_answer(self, asked: FilterRequest) -> FilterAnswer:
        """What a client is told that asks for the key of a filter: here nothing is hidden."""
        return FilterAnswer(**vars(asked), reason=f"`{self.domain}` hides nothing")

    def public_keys(self, address: str) -> Keys:
        """The keys of an agent or client by its address."""
        kind, name = split_audience(address)
        if kind == "comparator":
            return self.comparators[name]
        return self.agents[name].keys if kind == "agent" else self.clients[name].keys

    def bundle(
        self,
        address: str,
        revision: int,
        *,
        previous: str = "",
        expires_in: int = DAY,
        signer: SigningKey | None = None,
        recipient: str | None = None,
    ) -> SealedBundle:
        """A signed and sealed bundle for an audience."""
        kind, name = split_audience(address)
        content = {
            "agent": self.agent_content,
            "client": self.client_content,
            "comparator": self.comparator_content,
        }[kind](name)
        now = int(time.time())
        return build_bundle(
            domain=self.domain,
            audience=address,
            revision=revision,
            previous=previous,
            issued=now,
            expires=now + expires_in,
            root_version=1,
            content=content,
            sign=partial(sign, signer or self.authority.policy),
            recipient=self.public_keys(recipient or address).sealing.public,
        )

    # the oracle: policies read as plain text

    def readable(self, handle: str, event_type: str, values: Mapping[str, Any]) -> set[str] | None:
        """What a client may read of an event by the plain policies; None: not the event."""
        return self._permitted("subscribe", handle, event_type, values)

    def writable(self, handle: str, event_type: str, values: Mapping[str, Any]) -> set[str] | None:
        """What a client may write of an event by the plain policies; None: not the event."""
        return self._permitted("publish", handle, event_type, values)

    def _permitted(
        self, action: str, handle: str, event_type: str, values: Mapping[str, Any]
    ) -> set[str] | None:
        types = EventTypes(self.types)
        permitted: set[str] | None = None
        for policy in self.policies:
            if policy.action != action or not types.is_a(event_type, policy.type):
                continue
            subject = {f"subject.{n}": v for n, v in self.clients[handle].subject.items()}
            event = {f"event.{n}": v for n, v in values.items()}
            if not evaluate(parse(policy.subject, SUBJECT), subject):
                continue
            schema = self._event_schema(policy.type)
            if policy.event and not evaluate(parse(policy.event, schema), event):
                continue
            names = set(values) if policy.attributes is None else set(policy.attributes)
            permitted = (permitted or set()) | (names & set(values))
        return permitted


class ControlPlane:
    """Answers leases and sends bundles and notices, over any transport; keeps what it hears.

    Args:
        organisations: the domains that it governs.
        transport: connection to the control broker.
    """

    def __init__(self, organisations: list[Organisation], transport: Transport) -> None:
        self._organisations = organisations
        self._transport = transport
        self._stopping = threading.Event()
        self.acknowledgements: list[Acknowledgement] = []
        self.held: dict[str, Any] = {}
        self.minimum_revision: dict[str, int] = defaultdict(int)
        self.minimum_notice: dict[tuple[str, str], int] = defaultdict(int)
        self.revisions: dict[tuple[str, str], int] = defaultdict(int)
        self.silent = False
        self.leases_given = 0
        transport.subscribe(REQUESTS_QUEUE)
        transport.start()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def anchors_json(self) -> dict[str, Any]:
        """What audiences pin."""
        return self._organisations[0].authority.anchors().to_json()

    def push(self, organisation: Organisation, address: str, **options: Any) -> SealedBundle:
        """Send an audience the next revision of a domain."""
        place = (organisation.domain, address)
        self.revisions[place] += 1
        bundle = organisation.bundle(address, self.revisions[place], **options)
        self.send(address, "bundle", organisation.domain, bundle.message)
        return bundle

    def push_all(self, organisation: Organisation) -> None:
        """Send every audience of a domain its next revision."""
        for name in organisation.agents:
            self.push(organisation, audience("agent", name))
        for handle in organisation.clients:
            self.push(organisation, audience("client", handle))
        for name in organisation.comparators:
            self.push(organisation, audience("comparator", name))

    def notice(self, organisation: Organisation, address: str, deny: tuple[str, ...]) -> int:
        """Deny handles at an agent; returns the notice's number."""
        place = (address, organisation.domain)
        self.minimum_notice[place] += 1
        notice = Notice(
            number=self.minimum_notice[place],
            audience=address,
            domain=organisation.domain,
            revocation="r1",
            deny=deny,
            reason="test",
            issued=int(time.time()),
        )
        sealed = seal_notice(
            notice,
            sign=partial(sign, organisation.authority.notice),
            recipient=organisation.public_keys(address).sealing.public,
        )
        self.send(address, "notice", organisation.domain, sealed)
        return notice.number

    def send(self, address: str, kind: str, domain: str, payload: bytes) -> None:
        """Send anything to an audience's control queue, patiently."""
        body = encode_control(kind, domain, payload)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self._transport.send_many([Outgoing(control_queue(address), body)], timeout=5)
                return
            except TransportError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def statuses(self, address: str, what: str = "bundle") -> list[tuple[int, str, str]]:
        """(number, status, reason) of an audience's acknowledgements, in order."""
        return [
            (ack.number, ack.status, ack.reason)
            for ack in self.acknowledgements
            if ack.audience == address and ack.what == what
        ]

    def wait_applied(self, address: str, revision: int, seconds: float = PATIENCE) -> None:
        """Wait until an audience has acknowledged a revision as applied."""
        self.wait(
            lambda: (revision, "applied", "") in self.statuses(address),
            f"{address} to apply revision {revision}",
            seconds,
        )

    def wait(self, true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Wait until something is true."""
        wait_until(true, what, seconds)

    def stop(self) -> None:
        """Stop answering."""
        self._stopping.set()
        self._thread.join(5)
        self._transport.close()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            for message in self._transport.receive_many(20, 0.1):
                try:
                    self._answer(message.body)
                except TransportError:
                    continue
                message.ack()

    def _answer(self, body: bytes) -> None:
        try:
            request = decode_request(body)
        except DecodeError:
            return  # left by another test on the same broker
        keys = self._keys(request.audience)
        if keys is None:
            return  # of an earlier test on the same broker
        if request.kind == "ack":
            self.acknowledgements.append(verify_ack(request, keys.signing.public))
            return
        if request.kind == FILTER_KEY:
            self._answer_filter(verify_filter_request(request, keys.signing.public), keys)
            return
        asked = verify_lease_request(request, keys.signing.public)
        self.held[request.audience] = asked.held
        if not self.silent:
            self._lease(request.audience, asked.nonce, keys)

    def _answer_filter(self, asked: FilterRequest, keys: Keys) -> None:
        one = next(each for each in self._organisations if each.domain == asked.domain)
        sealed = seal_filter_answer(
            one.filter_answer(asked),
            sign=partial(sign, one.authority.policy),
            recipient=keys.sealing.public,
        )
        self.send(asked.audience, FILTER_KEY, one.domain, sealed)

    def _lease(self, address: str, nonce: str, keys: Keys) -> None:
        domains = {one.domain: one for one in self._organisations if self._knows(one, address)}
        lease = Lease(
            audience=address,
            nonce=nonce,
            time=time.time(),
            seconds={name: one.lease_seconds for name, one in domains.items()},
            domains={
                name: {
                    "minimum_revision": self.minimum_revision[name],
                    "minimum_notice": self.minimum_notice[address, name],
                }
                for name in domains
            },
        )
        authority = self._organisations[0].authority
        sealed = seal_lease(
            lease, sign=partial(sign, authority.lease), recipient=keys.sealing.public
        )
        body = encode_control("lease", "", sealed)
        self._transport.send_many([Outgoing(control_queue(address), body)], timeout=5)
        self.leases_given += 1

    def _keys(self, address: str) -> Keys | None:
        for organisation in self._organisations:
            if self._knows(organisation, address):
                return organisation.public_keys(address)
        return None

    @staticmethod
    def _knows(organisation: Organisation, address: str) -> bool:
        kind, name = split_audience(address)
        known: dict[str, Mapping[str, object]] = {
            "agent": organisation.agents,
            "client": organisation.clients,
            "comparator": organisation.comparators,
        }
        return name in known[kind]


def wait_until(true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait until something is true.

    Raises:
        AssertionError: it was not, in time.
    """
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        time.sleep(0.02)


def keys_document(keys: Keys) -> dict[str, str]:
    """Keys as `keys.json` holds them."""
    return {"sealing": b64(keys.sealing.private), "signing": b64(keys.signing.private)}


def spec(name: str, kind: AttributeType, *keys: str) -> AttributeSpec:
    """An attribute of an event type."""
    return AttributeSpec(name, kind, keys)


def airport(
    *, suffix: str = "", splits: Mapping[str, list[dict[str, Any]]] | None = None
) -> Organisation:
    """Flights in miniature: two agents on overlay a, one on b; a protected tail number.

    Args:
        suffix: appended to all names of agents and clients, so that runs share a broker.
        splits: event type -> its parts.
    """
    text, number = AttributeType("string"), AttributeType("int", minimum=-1000, maximum=10_000)
    types = (
        TypeSpec(
            "Flight",
            None,
            (
                spec("carrier", text),
                spec("origin", text),
                spec("delay", number),
                spec("tail", text, "tail-key"),
            ),
        ),
        TypeSpec("Departure", "Flight", (spec("gate", text),)),
    )
    policies = (
        Policy("airports-publish", "publish", "Flight", 'subject.role == "airport"'),
        Policy(
            "kiosk-publish", "publish", "Departure", 'subject.role == "kiosk"',
            attributes=("carrier", "gate"),
        ),
        Policy(
            "own-ua", "subscribe", "Flight",
            'subject.role == "airline" && subject.company == "UA"', 'event.carrier == "UA"',
        ),
        Policy(
            "own-dl", "subscribe", "Flight",
            'subject.role == "airline" && subject.company == "DL"', 'event.carrier == "DL"',
            ("carrier", "origin", "delay"),
        ),
        Policy(
            "late", "subscribe", "Flight", 'subject.role == "authority"', "event.delay > 120",
            ("carrier", "delay", "tail"),
        ),
    )  # fmt: skip
    alpha, beta, gamma = (name + suffix for name in ("alpha", "beta", "gamma"))
    at_alpha, at_beta = {"a": alpha, "b": gamma}, {"a": beta, "b": gamma}
    clients = [
        Client("p-airport" + suffix, {"role": "airport"}, at_alpha),
        Client("p-kiosk" + suffix, {"role": "kiosk"}, at_beta),
        Client("p-ua" + suffix, {"role": "airline", "company": "UA"}, at_alpha),
        Client("p-dl" + suffix, {"role": "airline", "company": "DL"}, at_beta),
        Client("p-faa" + suffix, {"role": "authority"}, at_beta),
        Client("p-nobody" + suffix, {"role": "guest"}, at_alpha),
    ]
    agents = [Agent(alpha, "a"), Agent(beta, "a"), Agent(gamma, "b")]
    return Organisation(
        domain="flights",
        types=types,
        policies=policies,
        agents={agent.name: agent for agent in agents},
        clients={client.handle: client for client in clients},
        key_holders={"tail-key": (alpha, beta, gamma)},
        splits=dict(splits or {}),
    )
