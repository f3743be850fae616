"""Encoded conjunctions of one agent in one epoch: kept ones as they are, missing ones made.

Spark fills the same rows beforehand where there are many; what it did not know of (a change after
its snapshot) is encoded here, so that nothing has to be thrown away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from adminapp.distribution.epochs import Blinding
from adminapp.distribution.models import EncodedItem, EncodingEpoch
from adminapp.distribution.plan import AgentPlan, PlainRule
from policyengine.anonset import Parameters, encode_many
from policyengine.primitives.canonical import dumps
from policyengine.primitives.hashing import digest
from policyengine.primitives.prf import prf
from policyengine.primitives.rand import SYSTEM_RANDOM

Kind = EncodedItem.Kind
Place: TypeAlias = tuple[str, str, int]
_BATCH = 500


@dataclass(frozen=True)
class Item:
    """One conjunction to be encoded.

    Args:
        kind: `subject` or `rule`.
        key: the subject's handle, or the rule's identifier.
        position: which of the subject's conjunctions; 0 for a rule.
        tokens: what it says, as it is encoded.
        mark: of the key that it is encoded under; empty for the epoch's first.
    """

    kind: str
    key: str
    position: int
    tokens: tuple[str, ...]
    mark: str = ""

    @property
    def place(self) -> Place:
        """Where its encoding stands."""
        return self.kind, self.key, self.position

    @property
    def tokens_hash(self) -> str:
        """Tells whether an encoding that is kept still says the same, under the same key."""
        return digest(dumps([self.mark, list(self.tokens)] if self.mark else list(self.tokens)))


@dataclass(frozen=True)
class Encoded:
    """One encoding that came out of a run, with the digest of its tokens."""

    agent: str
    kind: str
    key: str
    position: int
    encoded: bytes
    tokens_hash: str

    def item(self, epoch_id: int, agent_id: int) -> EncodedItem:
        """The row that keeps it."""
        return EncodedItem(
            epoch_id=epoch_id,
            agent_id=agent_id,
            kind=self.kind,
            key=self.key,
            position=self.position,
            encoded=self.encoded,
            tokens_hash=self.tokens_hash,
        )


def rule_id(rule: PlainRule, held: Blinding) -> str:
    """The identifier of a rule at one agent in one epoch.

    A bound value never shows in it: it is keyed like the encoding, or an agent could guess
    values until an identifier fits. Where its attribute got another alias, it is another one.
    """
    plain = f"{rule.policy}.{rule.conjunction}"
    if not rule.binding:
        return plain
    said = held.disguised(rule.subject_tokens)
    aliases = () if said == rule.subject_tokens else said
    short = prf(held.key, "portcullis/rule-id/v1", *rule.binding, *aliases, size=8)
    return f"{plain}.{short.hex()}"


def items_of(plan: AgentPlan, held: Blinding) -> list[Item]:
    """Everything that an agent's plan needs encoded."""
    subjects = [
        Item(Kind.SUBJECT, name, number, held.disguised(tokens), held.mark)
        for name, variants in plan.subjects.items()
        for number, tokens in enumerate(variants)
    ]
    rules = [
        Item(Kind.RULE, rule_id(rule, held), 0, held.disguised(rule.subject_tokens), held.mark)
        for rule in plan.rules
    ]
    return subjects + rules


def encode(
    epoch: EncodingEpoch,
    agent_id: int,
    items: Sequence[Item],
    key: bytes,
    parameters: Parameters,
) -> dict[Place, bytes]:
    """The encodings of `items`; those that are kept come back byte for byte."""
    kept = _kept(epoch, agent_id)
    wanted = {item.place: item for item in items}
    usable = {
        place: row.encoded
        for place, row in kept.items()
        if place in wanted and row.tokens_hash == wanted[place].tokens_hash
    }
    missing = [item for place, item in wanted.items() if place not in usable]
    made = _make(missing, key, parameters)
    store([_encoded("", item, made).item(epoch.pk, agent_id) for item in missing])
    _forget([row.pk for place, row in kept.items() if place not in wanted])
    return {place: bytes(encoded) for place, encoded in {**usable, **made}.items()}


def _kept(epoch: EncodingEpoch, agent_id: int) -> dict[Place, EncodedItem]:
    rows = EncodedItem.objects.filter(epoch=epoch, agent_id=agent_id)
    return {(row.kind, row.key, row.position): row for row in rows.iterator()}


def _make(items: Iterable[Item], key: bytes, parameters: Parameters) -> dict[Place, bytes]:
    made: dict[Place, bytes] = {}
    by_kind: dict[str, list[Item]] = {Kind.SUBJECT: [], Kind.RULE: []}
    for item in items:
        by_kind[item.kind].append(item)
    for kind, name in ((Kind.SUBJECT, "subject"), (Kind.RULE, "policy")):
        lists = [item.tokens for item in by_kind[kind]]
        encoded = encode_many(name, lists, key, parameters, random=SYSTEM_RANDOM)
        made |= {item.place: data for item, data in zip(by_kind[kind], encoded, strict=True)}
    return made


def encode_rows(
    agent: str, items: Sequence[Item], key: bytes, parameters: Parameters
) -> list[Encoded]:
    """Encode an agent's items, as the pipeline would, in their order."""
    made = _make(items, key, parameters)
    return [_encoded(agent, item, made) for item in items]


def _encoded(agent: str, item: Item, made: dict[Place, bytes]) -> Encoded:
    return Encoded(agent, item.kind, item.key, item.position, made[item.place], item.tokens_hash)


def store(rows: list[EncodedItem]) -> None:
    """Write encodings, over older ones of the same places."""
    EncodedItem.objects.bulk_create(
        rows,
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["epoch", "agent", "kind", "key", "position"],
        update_fields=["encoded", "tokens_hash"],
    )


def _forget(ids: list[int]) -> None:
    """Encodings of who is gone are not kept: a revoked subject's least of all."""
    for start in range(0, len(ids), _BATCH):
        EncodedItem.objects.filter(pk__in=ids[start : start + _BATCH]).delete()
