"""A small world of blind profiles: one epoch, a publisher, subscribers, their agents' shares."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from policyengine.attributes import AttributeType, Schema, Value, parse
from policyengine.blind import (
    AgentShare,
    BlindMaster,
    BlindPart,
    BlindPublic,
    ClientKeys,
    Context,
    EventSealer,
    ReadPolicy,
    finish_part,
)
from policyengine.primitives.rand import SeededRandom

SCHEMA: Schema = {
    "name": AttributeType("string"),
    "age": AttributeType("int", 0, 120),
    "ill": AttributeType("bool"),
    "unit": AttributeType("enum", values=("a", "b", "c")),
}
CLEAR: Schema = {"zone": AttributeType("string"), "level": AttributeType("int", 0, 9)}
ALL: Schema = {**CLEAR, **SCHEMA}
DOCTORS = ReadPolicy.of([["doctor"], ["nurse", "ward 1"]])
ANYONE = ReadPolicy.of([[]])
POLICIES = {"name": DOCTORS, "age": DOCTORS, "ill": ReadPolicy.of([["doctor"]]), "unit": ANYONE}
EVERY = frozenset(SCHEMA)
CONTEXT = Context("0" * 32, 0)
VALUES: Mapping[str, Value] = {"name": "Alice Ash", "age": 41, "ill": True, "unit": "b"}


@dataclass(frozen=True)
class Party:
    """A client's keys and its agent's share."""

    keys: ClientKeys
    share: AgentShare


@lru_cache
def master(epoch: int = 7) -> BlindMaster:
    return BlindMaster.init(SeededRandom(b"world %d" % epoch), domain="city", epoch=epoch)


@lru_cache
def public(epoch: int = 7) -> BlindPublic:
    return master(epoch).public()


@lru_cache
def party(handle: str, variants: tuple[frozenset[str], ...] = (), epoch: int = 7) -> Party:
    return Party(*master(epoch).enrol(handle, variants))


def doctor() -> Party:
    return party("doctor", (frozenset({"doctor"}),))


def nurse() -> Party:
    return party("nurse", (frozenset({"nurse", "ward 1"}),))


def split_nurse() -> Party:
    """Has both tokens, but never together."""
    return party("split", (frozenset({"nurse"}), frozenset({"ward 1"})))


def publisher() -> Party:
    return party("sender")


@lru_cache
def sealer() -> EventSealer:
    return EventSealer(public(), publisher().keys)


def sealed(
    values: Mapping[str, Value] = VALUES,
    *,
    context: Context = CONTEXT,
    policies: Mapping[str, ReadPolicy] = POLICIES,
) -> BlindPart:
    return sealer().seal(context, values, SCHEMA, policies)


def routed(values: Mapping[str, Value] = VALUES, names: Collection[str] = EVERY):
    return finish_part(publisher().share, sealed(values), names)


def expression(text: str):
    return parse(text, ALL)
