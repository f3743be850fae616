"""A domain in plain, and the bundles that its agents and clients hold: a small control plane.

Policies are one expression over `subject.*` and `event.*`. Each conjunction of its normal form
becomes a rule: the subject's side as an anonymous set, the event's side as routing tags
(paper 000). A join becomes one rule for each value that a subject at the agent holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from brokers.simulation.blindkeys import BlindKeys
from brokers.simulation.chance import Chance
from brokers.simulation.plan import AgentSite, ClientSite, Plan, Rule
from policyengine.anonset import Encoder, Parameters, length_for, size_for, tag
from policyengine.attributes import (
    Conjunction,
    Literal,
    Predicate,
    Value,
    bind_joins,
    literal_token,
    normalise,
    parse,
    predicates_of,
    tokens_of,
)
from policyengine.bundles import (
    AgentContent,
    AgentRef,
    ClientContent,
    ClientRef,
    EncodedRule,
    EncodedSubject,
    EpochContent,
    HomeAgent,
    SealedBundle,
    TagKey,
    TrustAnchors,
    audience,
    build_bundle,
    split_audience,
)
from policyengine.events import EventTypes
from policyengine.primitives.hpke import SealingKey
from policyengine.primitives.prf import prf
from policyengine.primitives.signatures import SigningKey, sign
from policyengine.trustgroups import wrap_key

_SUBJECT = "subject."
_EVENT = "event."
_EPOCH = 1
_BUNDLE_LIFE = 30 * 86_400


@dataclass(frozen=True)
class Keys:
    """The private keys of a node, drawn from the seed."""

    sealing: SealingKey = field(repr=False)
    signing: SigningKey = field(repr=False)

    @classmethod
    def drawn(cls, chance: Chance) -> Keys:
        """Keys that the seed gives."""
        return cls(SealingKey(chance.token(32)), SigningKey(chance.token(32)))


class Authority:
    """The signing keys of the trusted authority."""

    def __init__(self, chance: Chance) -> None:
        self.policy, self.notice, self.lease, self.receipt = (
            SigningKey(chance.token(32)) for _ in range(4)
        )

    def anchors(self) -> TrustAnchors:
        """What audiences pin."""
        return TrustAnchors(
            1, self.policy.public, self.notice.public, self.lease.public, self.receipt.public
        )


class Organisation:
    """A plan with its keys, compiled into bundles.

    Args:
        plan: the domain in plain.
        chance: all keys come from here.
    """

    def __init__(self, plan: Plan, chance: Chance) -> None:
        self.plan = plan
        self.authority = Authority(chance.child("authority"))
        self.agents = {site.name: site for site in plan.agents}
        self.clients = {site.handle: site for site in plan.clients}
        self._random = chance.child("bundles")
        self._secret = chance.child("secret").token(32)
        self._blind = BlindKeys(
            plan, self._conjunctions, self._subject_predicates, chance.child("blind")
        )
        addresses = [audience("agent", name) for name in self.agents]
        addresses += [audience("client", handle) for handle in self.clients]
        self.keys = {address: Keys.drawn(chance.child(address)) for address in addresses}

    @property
    def domain(self) -> str:
        """The domain's name."""
        return self.plan.domain

    @property
    def overlays(self) -> tuple[str, ...]:
        """The overlays that its agents stand on."""
        return tuple(sorted({site.overlay for site in self.plan.agents}))

    # policies

    @cached_property
    def types(self) -> EventTypes:
        """The event types with their inheritance."""
        return EventTypes(self.plan.types)

    @cached_property
    def _wire_types(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(spec.to_json() for spec in self.plan.types)

    @cached_property
    def _conjunctions(self) -> dict[str, tuple[Conjunction, ...]]:
        return {rule.name: self._normal_form(rule) for rule in self.plan.rules}

    def _normal_form(self, rule: Rule) -> tuple[Conjunction, ...]:
        schema = dict(self.plan.schema)
        for name in self.types.subtree(rule.type):
            schema |= {_EVENT + spec.name: spec.type for spec in self.types.attributes(name)}
        return tuple(normalise(parse(rule.expression, schema, joins=True), schema))

    def _predicates(self, prefix: str) -> tuple[Predicate, ...]:
        sides = [
            tuple(one for one in each if isinstance(one, Literal))
            for conjunctions in self._conjunctions.values()
            for each in conjunctions
        ]
        return predicates_of(sides, prefix)

    @cached_property
    def _subject_predicates(self) -> tuple[Predicate, ...]:
        return self._predicates(_SUBJECT)

    @cached_property
    def _event_predicates(self) -> tuple[dict[str, object], ...]:
        # Equality and presence of what is hidden are tagged only where a policy asks for them.
        asked = {
            literal_token(one): one
            for conjunctions in self._conjunctions.values()
            for each in conjunctions
            for one in each
            if isinstance(one, Literal) and one.attribute in self._hidden
        }
        asked |= {literal_token(one): one for one in self._predicates(_EVENT)}
        return tuple(asked[token].to_json() for token in sorted(asked))

    @cached_property
    def _hidden(self) -> frozenset[str]:
        """Attributes, by full name, whose values no agent sees."""
        return frozenset(
            _EVENT + spec.name for one in self.plan.types for spec in one.attributes if spec.blind
        )

    @cached_property
    def _provable(self) -> tuple[dict[str, object], ...]:
        """What agents hold the values of whole events against, beside equality."""
        found = (one for one in self._predicates(_EVENT) if one.attribute not in self._hidden)
        return tuple(one.to_json() for one in found)

    def _bound(self, agent: AgentSite) -> Iterable[tuple[Rule, tuple[Literal, ...]]]:
        """Every rule with its conjunctions, joins replaced by values that subjects here hold."""
        subjects = [site.subject for site in self.at_home(agent)]
        for rule in self.plan.rules:
            found: dict[tuple[Literal, ...], None] = {}
            for conjunction in self._conjunctions[rule.name]:
                for literals in _without_joins(conjunction, subjects):
                    found[literals] = None
            yield from ((rule, literals) for literals in found)

    def at_home(self, agent: AgentSite) -> list[ClientSite]:
        """Clients whose home on the agent's overlay is this agent."""
        return [c for c in self.plan.clients if c.homes.get(agent.overlay) == agent.name]

    # keys, all derived from one secret

    def _key(self, *what: str) -> bytes:
        return prf(self._secret, *what)

    def _tag_key(self, overlay: str) -> bytes:
        return self._key("tag", overlay)

    def _wraps(self, agent: AgentSite) -> list[tuple[str, bytes]]:
        held = [f"overlay:{agent.overlay}"]
        held += [f"key:{n}" for n, names in self.plan.key_holders.items() if agent.name in names]
        return [(group, self._key("group", group)) for group in held]

    # contents

    def agent_content(self, name: str) -> AgentContent:
        """What an agent holds."""
        agent, address = self.agents[name], audience("agent", name)
        return AgentContent(
            domain=self.domain,
            agent=name,
            overlay=agent.overlay,
            lease_seconds=self.plan.lease_seconds,
            types=self._wire_types,
            agents=tuple(self._agent_refs[one.name] for one in self._peers(agent)),
            clients=tuple(
                ClientRef(one.handle, keys.sealing.public, keys.signing.public)
                for one in self.at_home(agent)
                for keys in (self.keys[audience("client", one.handle)],)
            ),
            epochs=(self._epoch(agent),),
            wraps=tuple(
                wrap_key(
                    group, _EPOCH, key,
                    recipient=self.keys[address].sealing.public, audience=address,
                    state="current",
                )
                for group, key in self._wraps(agent)
            ),
            notices_through=0,
            blind=self._blind.of_agent(self.at_home(agent)),
            ordered=self._blind.columns,
            splits=self._parts_over(agent.overlay),
        )  # fmt: skip

    def _parts_over(self, overlay: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, parts in self.plan.splits.items():
            below = {each: None for kind in self.types.subtree(name) for each in self._names(kind)}
            placed = {each for _, names in parts for each in names}
            for kind in self.types.subtree(name):
                for number, (place, names) in enumerate(parts):
                    # What no part names travels in the first one.
                    free = [each for each in below if each not in placed] if number == 0 else []
                    if place == overlay:
                        found[kind] = [*names, *free]
        return found

    def _names(self, kind: str) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.types.attributes(kind))

    @cached_property
    def _agent_refs(self) -> dict[str, AgentRef]:
        found = {}
        for site in self.plan.agents:
            keys = self.keys[audience("agent", site.name)]
            public = (keys.sealing.public, keys.signing.public)
            found[site.name] = AgentRef(site.name, site.overlay, *public)
        return found

    def _peers(self, agent: AgentSite) -> list[AgentSite]:
        return [one for one in self.plan.agents if one.overlay == agent.overlay]

    def _epoch(self, agent: AgentSite) -> EpochContent:
        rules = [
            (
                rule,
                _tokens(literals, _SUBJECT),
                _tokens(literals, _EVENT),
                self._proof(rule, literals),
            )
            for rule, literals in self._bound(agent)
        ]
        asked = {token for _, tokens, _, _ in rules for token in tokens}
        subjects = {
            site.handle: tuple(
                token
                for token in tokens_of(site.subject, self._subject_predicates)
                if token in asked
            )
            for site in self.at_home(agent)
        }
        parameters = _size([*(held for _, held, _, _ in rules), *subjects.values()])
        encoder = Encoder(self._key("encoding", agent.name), parameters, random=self._random)
        tag_key = self._tag_key(agent.overlay)
        return EpochContent(
            epoch=_EPOCH,
            state="current",
            parameters=parameters.to_json(),
            rules=tuple(
                EncodedRule(
                    id=f"r{number}",
                    policy=rule.name,
                    action=rule.action,
                    type=rule.type,
                    event_tags=tuple(sorted(tag(tag_key, token) for token in event)),
                    encoded=encoder.encode_policy(subject),
                    attributes=rule.attributes,
                    proof=proof,
                )
                for number, (rule, subject, event, proof) in enumerate(rules)
            ),
            subjects=tuple(
                EncodedSubject(handle, (encoder.encode_subject(tokens),))
                for handle, tokens in subjects.items()
            ),
            proof_key=self._key("proof"),
            predicates=self._provable,
        )

    def _proof(self, rule: Rule, literals: Iterable[Literal]) -> tuple[bytes, ...]:
        """What an agent must find in the values that it sees before a publish rule counts."""
        if rule.action != "publish":
            return ()
        seen = (one for one in literals if one.attribute not in self._hidden)
        return tuple(sorted(tag(self._key("proof"), token) for token in _tokens(seen, _EVENT)))

    def client_content(self, handle: str) -> ClientContent:
        """What a client holds."""
        site = self.clients[handle]
        refs = [self._agent_refs[name] for _, name in sorted(site.homes.items())]
        return ClientContent(
            domain=self.domain,
            handle=handle,
            homes=tuple(HomeAgent(r.name, r.overlay, r.sealing_key, r.verify_key) for r in refs),
            types=self._wire_types,
            splits={
                name: [{"overlay": overlay, "attributes": list(names)} for overlay, names in parts]
                for name, parts in self.plan.splits.items()
            },
            tag_keys=tuple(
                TagKey(ref.overlay, _EPOCH, "current", self._tag_key(ref.overlay)) for ref in refs
            ),
            predicates=self._event_predicates,
            publishes=tuple(sorted({r.type for r in self.plan.rules if r.action == "publish"})),
            window_seconds=self.plan.window_seconds,
            blind=self._blind.of_client(site),
            ordered=self._blind.order_keys,
        )

    def bundle(self, address: str, revision: int, issued: float) -> SealedBundle:
        """A signed and sealed bundle for an audience.

        Args:
            address: for example `agent:a1`.
            revision: its number, from 1.
            issued: Unix time in seconds.
        """
        kind, name = split_audience(address)
        content = self.agent_content(name) if kind == "agent" else self.client_content(name)
        return build_bundle(
            domain=self.domain,
            audience=address,
            revision=revision,
            previous="",
            issued=int(issued),
            expires=int(issued) + _BUNDLE_LIFE,
            root_version=1,
            content=content,
            sign=partial(sign, self.authority.policy),
            recipient=self.keys[address].sealing.public,
        )


def _without_joins(
    conjunction: Conjunction, subjects: Iterable[Mapping[str, Value]]
) -> list[tuple[Literal, ...]]:
    plain = tuple(one for one in conjunction if isinstance(one, Literal))
    joins = tuple(one for one in conjunction if not isinstance(one, Literal))
    if not joins:
        return [plain]
    found = []
    for values in subjects:
        bound = bind_joins(joins, values)
        if bound is None:
            continue
        named = [name for join in joins for name in (join.left, join.right) if name in values]
        pinned = [Literal(name, "==", values[name]) for name in named]
        wanted = [one for one in bound if isinstance(one, Literal)]
        found.append((*plain, *pinned, *wanted))
    return found


def _tokens(literals: Iterable[Literal], prefix: str) -> tuple[str, ...]:
    wanted = (one for one in literals if one.attribute.startswith(prefix))
    return tuple(sorted({literal_token(one) for one in wanted}))


def _size(conjunctions: Iterable[tuple[str, ...]]) -> Parameters:
    longest = max((len(tokens) for tokens in conjunctions), default=0)
    return size_for(length_for(max(1, longest)))
