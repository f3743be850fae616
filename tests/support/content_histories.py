"""Contents as they change over time: what deltas are tried on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from policyengine.bundles import (
    AgentContent,
    AgentRef,
    BlindAgentEpoch,
    BlindClientEpoch,
    ClientContent,
    ClientRef,
    ComparatorContent,
    Content,
    EncodedRule,
    EncodedSubject,
    EpochContent,
    OrderedColumn,
    OrderKey,
    ReadTerm,
    TagKey,
    Wrap,
)
from policyengine.primitives.rand import SeededRandom
from tests.support import bundle_samples as samples


class Chance:
    """Small numbers from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = SeededRandom(b"histories" + seed.to_bytes(8, "big"))

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        return int.from_bytes(self._random.token(4), "big") % limit

    def token(self, size: int) -> bytes:
        """Some bytes."""
        return self._random.token(size)

    def shaken(self, items: tuple[Any, ...], fresh: Any) -> tuple[Any, ...]:
        """Drop, add, or move an item."""
        kept = list(items)
        if kept and self.below(3) == 0:
            kept.pop(self.below(len(kept)))
        if self.below(3) == 0:
            kept.insert(self.below(len(kept) + 1), fresh())
        if len(kept) > 1 and self.below(6) == 0:
            kept.insert(self.below(len(kept)), kept.pop())
        return tuple(kept)

    def name(self, prefix: str) -> str:
        """A name that nobody has yet."""
        return prefix + self.token(4).hex()


def _rule(chance: Chance) -> EncodedRule:
    return EncodedRule(
        chance.name("r"), "policy-1", "subscribe", "Telemetry", (), chance.token(24), None
    )


def _client(chance: Chance) -> ClientRef:
    return ClientRef(chance.name("p-"), chance.token(32), chance.token(32))


def _epoch(chance: Chance, held: EpochContent) -> EpochContent:
    return replace(
        held,
        rules=chance.shaken(held.rules, lambda: _rule(chance)),
        subjects=chance.shaken(
            held.subjects, lambda: EncodedSubject(chance.name("p-"), (chance.token(24),))
        ),
        predicates=chance.shaken(
            held.predicates, lambda: {"attribute": chance.name("a"), "op": "==", "value": 1}
        ),
        state=("staged", "current", "draining")[chance.below(3)],
    )


def _share(chance: Chance, held: BlindAgentEpoch) -> BlindAgentEpoch:
    shares = dict(held.shares)
    if chance.below(2):
        shares[chance.name("p-")] = chance.token(16)
    if shares and chance.below(2):
        del shares[sorted(shares)[0]]
    return replace(held, shares=shares)


def _agent(chance: Chance, held: AgentContent) -> AgentContent:
    epochs = tuple(_epoch(chance, one) if chance.below(2) else one for one in held.epochs)
    states = [one.state for one in epochs]
    if states.count("current") > 1:
        epochs = held.epochs
    fresh_epoch = samples.epoch_content(epoch=chance.below(2**30), state="staged")
    return replace(
        held,
        lease_seconds=1 + chance.below(60),
        notices_through=held.notices_through + chance.below(2),
        types=chance.shaken(held.types, lambda: {**samples.TYPE, "name": chance.name("T")}),
        agents=chance.shaken(
            held.agents, lambda: AgentRef(chance.name("a"), "a", bytes(32), bytes(32))
        ),
        clients=chance.shaken(held.clients, lambda: _client(chance)),
        epochs=chance.shaken(epochs, lambda: fresh_epoch)[:8],
        wraps=chance.shaken(
            held.wraps, lambda: Wrap(chance.name("key:"), 1, chance.token(81), "current")
        ),
        blind=chance.shaken(
            tuple(_share(chance, one) for one in held.blind),
            lambda: BlindAgentEpoch(chance.below(2**30), "staged", chance.token(9), {}),
        )[:8],
        ordered=chance.shaken(
            held.ordered, lambda: OrderedColumn("T", chance.name("a"), 1, "staged", "sbm1")
        ),
        splits=(held.splits, None, {}, {"T": ["a"]})[chance.below(4)],
    )


def _policies(chance: Chance) -> dict[str, Any]:
    names = [chance.name("T") for _ in range(chance.below(3))]
    return {name: {"house": (ReadTerm(('subject.house=="7"',)),)} for name in names}


def _client_content(chance: Chance, held: ClientContent) -> ClientContent:
    return replace(
        held,
        types=chance.shaken(held.types, lambda: {**samples.TYPE, "name": chance.name("T")}),
        tag_keys=chance.shaken(
            held.tag_keys, lambda: TagKey(chance.name("o"), 1, "current", chance.token(32))
        ),
        predicates=chance.shaken(held.predicates, lambda: {"attribute": "x", "op": "=="}),
        publishes=chance.shaken(held.publishes, lambda: chance.name("T")),
        blind=chance.shaken(
            tuple(
                replace(one, read_policies={**one.read_policies, **_policies(chance)})
                for one in held.blind
            ),
            lambda: BlindClientEpoch(
                chance.below(2**30), "staged", b"public", chance.token(9), _policies(chance)
            ),
        )[:8],
        ordered=chance.shaken(held.ordered, lambda: _order_key(chance)),
    )


def _order_key(chance: Chance) -> OrderKey:
    return OrderKey("T", chance.name("a"), 1, "staged", chance.token(32))


def history(kind: str, seed: int, steps: int) -> Iterator[Content]:
    """Contents of one audience, one after another; some steps change nothing."""
    chance = Chance(seed)
    content: Content = {
        "agent": samples.agent_content,
        "client": samples.client_content,
        "comparator": lambda: ComparatorContent("heating", "one", ()),
    }[kind]()
    yield content
    for _ in range(steps):
        if chance.below(5):
            if isinstance(content, AgentContent):
                content = _agent(chance, content)
            elif isinstance(content, ClientContent):
                content = _client_content(chance, content)
            else:
                ordered = chance.shaken(content.ordered, lambda: _order_key(chance))
                content = replace(content, ordered=ordered)
        yield content
