"""What a broker sees of a policy: its encodings beside the plain text, and what they still tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adminapp.distribution import encodings, epochs
from adminapp.distribution.gather import gather
from adminapp.distribution.models import EncodedItem, EncodingEpoch
from adminapp.distribution.plan import (
    PlainAgent,
    PlainDomain,
    PlainPolicy,
    PlainRule,
    longest_conjunction,
    plan_agent,
)
from adminapp.policies.grants import permitted
from adminapp.policies.models import Policy
from policyengine.anonset import Parameters, false_positive, match, tag

_SHOWN_BYTES = 48


@dataclass(frozen=True)
class RuleView:
    """One conjunction at one agent.

    Args:
        id: how the agent names it.
        subject_tokens: what the encoding says, in plain; the agent never has it.
        event_tokens: what the tags say, in plain; the agent never has it.
        event_tags: the tags that the agent compares, hexadecimal.
        encoded: the beginning of the encoding, hexadecimal; "" before the first compile.
        size: its length in bytes.
        bits: how many bits of it are set.
        grants: how many clients at home there satisfy the subject's side.
        clients: how many clients are at home there.
    """

    id: str
    subject_tokens: tuple[str, ...]
    event_tokens: tuple[str, ...]
    event_tags: tuple[str, ...]
    encoded: str
    size: int
    bits: int
    grants: int
    clients: int


@dataclass(frozen=True)
class AgentView:
    """What one agent holds of the policy."""

    agent: str
    overlay: str
    rules: tuple[RuleView, ...]


@dataclass(frozen=True)
class BrokerView:
    """A policy in plain and as agents hold it.

    Args:
        expression: what a person wrote.
        epoch: the encoding epoch shown, or None before the first compile.
        parameters: n, m, k and masks of that epoch.
        false_positive: how likely a subject that lacks one attribute is granted by mistake.
        agents: what each agent holds.
        leaks: what an agent can still tell from it, in plain sentences.
    """

    expression: str
    attributes: tuple[str, ...] | None
    epoch: int | None
    parameters: dict[str, Any]
    false_positive: float
    agents: tuple[AgentView, ...]
    leaks: tuple[str, ...]


def broker_view(policy: Policy) -> BrokerView:
    """What agents hold of a policy now; raises AuthorityUnavailable when its keys are away."""
    epoch = epochs.current(policy.domain)
    domain = gather(policy.domain)
    plain = [each for each in domain.policies if each.id == policy.pk]
    if epoch is None or not plain:
        return _nothing_yet(policy)
    parameters = epochs.parameters_of(epoch)
    agents = tuple(_agent(domain, agent, policy, epoch, parameters) for agent in domain.agents)
    return BrokerView(
        expression=policy.expression,
        attributes=permitted(policy),
        epoch=epoch.number,
        parameters=dict(parameters.to_json()),
        false_positive=false_positive(parameters, parameters.n),
        agents=agents,
        leaks=_leaks(plain, parameters, longest_conjunction(domain)),
    )


def _nothing_yet(policy: Policy) -> BrokerView:
    return BrokerView(policy.expression, permitted(policy), None, {}, 0.0, (), ())


def _agent(
    domain: PlainDomain,
    agent: PlainAgent,
    policy: Policy,
    epoch: EncodingEpoch,
    parameters: Parameters,
) -> AgentView:
    scopes = set(epoch.keys.values_list("scope", flat=True))
    if not {f"agent:{agent.name}", f"overlay:{agent.overlay}"} <= scopes:
        return AgentView(agent.name, agent.overlay, ())
    blinding = epochs.blinding(epoch, agent.name)
    tag_key = epochs.tag_key(epoch, agent.overlay)
    held = _held(epoch, agent)
    plan = plan_agent(domain, agent, epochs.capacity(parameters))
    rules = [rule for rule in plan.rules if rule.policy == policy.pk]
    return AgentView(
        agent=agent.name,
        overlay=agent.overlay,
        rules=tuple(_rule(rule, blinding, tag_key, held, parameters) for rule in rules),
    )


def _held(epoch: EncodingEpoch, agent: PlainAgent) -> dict[encodings.Place, bytes]:
    rows = EncodedItem.objects.filter(epoch=epoch, agent_id=agent.id)
    return {(row.kind, row.key, row.position): bytes(row.encoded) for row in rows}


def _rule(
    rule: PlainRule,
    blinding: epochs.Blinding,
    tag_key: bytes,
    held: dict[encodings.Place, bytes],
    parameters: Parameters,
) -> RuleView:
    name = encodings.rule_id(rule, blinding)
    encoded = held.get((encodings.Kind.RULE, name, 0), b"")
    subjects = [place for place in held if place[0] == encodings.Kind.SUBJECT]
    granted = {  # by handle: one of several encodings of a client suffices
        place[1]
        for place in subjects
        if encoded and match(encoded, held[place], parameters).granted
    }
    return RuleView(
        id=name,
        subject_tokens=rule.subject_tokens,
        event_tokens=rule.event_tokens,
        event_tags=tuple(sorted(tag(tag_key, token).hex() for token in rule.event_tokens)),
        encoded=encoded[:_SHOWN_BYTES].hex(),
        size=len(encoded),
        bits=sum(byte.bit_count() for byte in encoded),
        grants=len(granted),
        clients=len({handle for _, handle, _ in subjects}),
    )


def _leaks(plain: Sequence[PlainPolicy], parameters: Parameters, longest: int) -> tuple[str, ...]:
    """What remains visible within one agent and one epoch (docs: security model)."""
    kinds = ", ".join(f"`{name}`" for name in dict.fromkeys(each.type for each in plain))
    found = [
        f"the event type {kinds} and whether it is about publishing or receiving",
        "which of its clients satisfy the rule, and that two equal encodings are equal",
        (
            f"that no conjunction has more than {epochs.capacity(parameters)} tests "
            f"(all are padded to {parameters.n} elements; the longest here has {longest})"
        ),
        "nothing across agents or epochs: each has a key of its own",
    ]
    if any(each.attributes is not None for each in plain):
        found.append("the names of the attributes that it permits: it has to cut out the others")
    return tuple(found)
