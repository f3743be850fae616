"""Bytes of keys, events and filters: nothing but the canonical form is accepted."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.errors import DecodeError
from policyengine.sde import (
    BrokerKey,
    EncryptedEvent,
    EncryptedFilter,
    MasterKey,
    UserEvent,
    UserFilter,
    UserKey,
    keygen,
)
from policyengine.sde.wire import write
from tests.unit.engine_sde.samples import GROUPS, World
from tests.unit.engine_sde.test_wire import things

WORLDS = {name: World(name) for name in GROUPS}
SAMPLES = [(kind, thing.encode()) for name in GROUPS for kind, thing in things(WORLDS[name])]
KINDS = (MasterKey, UserKey, BrokerKey, UserEvent, EncryptedEvent, UserFilter, EncryptedFilter)
NAMES = {
    MasterKey: "master",
    UserKey: "user",
    BrokerKey: "share",
    UserEvent: "event",
    EncryptedEvent: "trapdoors",
    UserFilter: "filter",
    EncryptedFilter: "stored filter",
}
HEADER, CHECK = 19, 16


def accepted(kind, data: bytes):
    """Decode, or return None where that is refused as it should be."""
    try:
        return kind.decode(data)
    except DecodeError:
        return None


@given(st.sampled_from(SAMPLES), st.data())
@settings(max_examples=300, deadline=None)
def test_a_mutation_is_refused(sample, data) -> None:
    kind, good = sample
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(len(good), start + 8)))
    bad = good[:start] + data.draw(st.binary(max_size=8)) + good[end:]
    assert accepted(kind, bad) is None or bad == good


@given(st.sampled_from(SAMPLES), st.data())
@settings(max_examples=200, deadline=None)
def test_with_a_right_check_value_only_canonical_bytes_pass(sample, data) -> None:
    """Whoever computes the check value anew still cannot make two forms of one thing."""
    kind, good = sample
    body = good[HEADER:-CHECK]
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, min(len(body), start + 4)))
    mutated = body[:start] + data.draw(st.binary(max_size=4)) + body[end:]
    system = kind.decode(good).system
    bad = write(NAMES[kind], system, mutated)
    found = accepted(kind, bad)
    assert found is None or found.encode() == bad
    assert found is None or mutated == body or found != kind.decode(good)


@given(st.binary(max_size=200), st.sampled_from(KINDS))
@settings(max_examples=200, deadline=None)
def test_junk_is_refused(junk, kind) -> None:
    assert accepted(kind, junk) is None


@given(st.text(min_size=1, max_size=60), st.sampled_from(GROUPS))
@settings(max_examples=40, deadline=None)
def test_any_name_travels(user, group) -> None:
    for key in keygen(WORLDS[group].master, user, random=WORLDS[group].random):
        assert type(key).decode(key.encode()) == key
        assert key.user == user
