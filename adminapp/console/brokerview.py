"""What the broker sees, drawn: each encoding as a pattern of bits beside the plain text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from adminapp.core.authority import AuthorityError
from adminapp.distribution import selectors
from adminapp.distribution.brokerview import AgentView, BrokerView, RuleView
from adminapp.distribution.models import EncodedItem
from adminapp.policies.models import Policy
from policyengine.anonset import Parameters
from policyengine.anonset.wire import HEADER_BYTES, decode_bloom_policy
from policyengine.errors import PortcullisError

COLUMNS = 80


@dataclass(frozen=True)
class Pattern:
    """Bits as an SVG drawing, one unit a bit.

    Args:
        columns: width.
        rows: height.
        meant: path of the bits that stand for the condition.
        masks: path of the bits that are there only to confuse; empty for tokens.
    """

    columns: int
    rows: int
    meant: str
    masks: str


@dataclass(frozen=True)
class DrawnRule:
    """One rule at one agent."""

    rule: RuleView
    pattern: Pattern | None


@dataclass(frozen=True)
class DrawnAgent:
    """One agent with its rules."""

    agent: AgentView
    rules: tuple[DrawnRule, ...]


@dataclass(frozen=True)
class Odds:
    """A small probability as one in `lead` times ten to the `power`."""

    lead: str
    power: int


@dataclass(frozen=True)
class Drawn:
    """The whole view.

    Args:
        view: the figures.
        agents: what each agent holds.
        odds: the false-positive figure, `1 in 1.8 x 10^19`; None before the first compile.
        unavailable: the trusted authority, without which nothing can be shown, is away.
    """

    view: BrokerView | None
    agents: tuple[DrawnAgent, ...] = ()
    odds: Odds | None = None
    unavailable: bool = False


def view(policy: Policy) -> Drawn:
    """What agents hold of `policy` now."""
    try:
        found = selectors.broker_view(policy)
    except AuthorityError:
        return Drawn(None, unavailable=True)
    if found.epoch is None:
        return Drawn(found)
    parameters = Parameters.from_json(found.parameters)
    held = _encodings(policy, found)
    agents = tuple(
        DrawnAgent(agent, tuple(_drawn(agent, rule, held, parameters) for rule in agent.rules))
        for agent in found.agents
    )
    return Drawn(found, agents, odds(found.false_positive))


def odds(probability: float) -> Odds:
    """How small a probability is, for people: one in so many."""
    if probability <= 0:
        return Odds("∞", 0)
    if probability > 0.001:
        return Odds(f"{1 / probability:,.0f}", 0)
    power = math.floor(-math.log10(probability))
    return Odds(f"{1 / probability / 10**power:.1f}", power)


def _encodings(policy: Policy, found: BrokerView) -> dict[tuple[str, str], bytes]:
    """Agent and rule -> the whole encoding."""
    names = {rule.id for agent in found.agents for rule in agent.rules}
    rows = EncodedItem.objects.filter(
        epoch__domain=policy.domain,
        epoch__number=found.epoch,
        kind=EncodedItem.Kind.RULE,
        key__in=names,
    )
    return {
        (agent, key): bytes(data)
        for agent, key, data in rows.values_list("agent__name", "key", "encoded")
    }


def _drawn(
    agent: AgentView,
    rule: RuleView,
    held: dict[tuple[str, str], bytes],
    parameters: Parameters,
) -> DrawnRule:
    data = held.get((agent.agent, rule.id))
    return DrawnRule(rule, pattern(data, parameters) if data else None)


def pattern(data: bytes, parameters: Parameters) -> Pattern | None:
    """Draw an encoding; None when it is not one of these parameters."""
    if parameters.encoding == "tokens":
        bits = int.from_bytes(data[HEADER_BYTES:], "little")
        return _pattern(bits, 0, 8 * (len(data) - HEADER_BYTES))
    try:
        filters = decode_bloom_policy(data, parameters)
    except PortcullisError:
        return None
    return _pattern(filters.attributes, filters.mask, parameters.m)


def _pattern(bits: int, mask: int, size: int) -> Pattern:
    rows = -(-size // COLUMNS)
    meant = (i for i in range(size) if bits >> i & 1 and not mask >> i & 1)
    masked = (i for i in range(size) if mask >> i & 1)
    return Pattern(COLUMNS, rows, _path(meant), _path(masked))


def _path(positions: Iterable[int]) -> str:
    return "".join(f"M{i % COLUMNS} {i // COLUMNS}h.85v.85h-.85z" for i in positions)
