"""Whatever happens to a trust group: keys reach members of the time, and nobody else."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.errors import DecryptionError, InputError
from policyengine.primitives import SealingKey, SeededRandom
from policyengine.primitives.aead import open_, seal
from policyengine.trustgroups import Member, TrustGroup, open_wrap

PEOPLE = {
    name: SealingKey(bytes([number]) * 32) if number < 3 else SealingKey.from_seed(bytes(32))
    for number, name in enumerate(["agent:a", "agent:b", "agent:c", "agent:d"], start=0)
}
names = st.sampled_from(sorted(PEOPLE))
steps = st.one_of(
    st.tuples(st.just("add"), names, st.booleans()),
    st.tuples(st.just("hand on"), names, st.integers(1, 6)),
    st.tuples(st.just("remove"), names, st.booleans()),
    st.tuples(st.sampled_from(["stage", "promote", "rotate"]), st.none(), st.none()),
    st.tuples(st.just("retire"), st.none(), st.integers(1, 6)),
)


def stepped(group: TrustGroup, step: tuple[str, Any, Any], random: SeededRandom) -> TrustGroup:
    what, who, how = step
    match what:
        case "add":
            return group.add_member(Member(who, PEOPLE[who].public), switch=how, random=random)
        case "hand on":
            member = Member(who, PEOPLE[who].public)
            return group.add_member(member, hand_on=[how], random=random)
        case "remove":
            return group.remove_member(who, switch=how, random=random)
        case "stage":
            return group.stage(random=random)
        case "promote":
            return group.promote()
        case "rotate":
            return group.rotate(random=random)
        case _:
            return group.retire(how)


@settings(max_examples=80, deadline=None)
@given(st.lists(names, unique=True, max_size=3), st.lists(steps, max_size=8))
def test_keys_reach_members_of_the_time_only(
    begun: list[str], what_happens: list[tuple[str, Any, Any]]
) -> None:
    random = SeededRandom(b"group")
    members = [Member(name, PEOPLE[name].public) for name in begun]
    group = TrustGroup.found("key:police", members, random=random)
    sent: dict[int, bytes] = {}  # a ciphertext of each epoch that was ever made
    learnt: dict[str, dict[int, bytes]] = {name: {} for name in PEOPLE}
    _learn(group, sent, learnt, random)
    for step in what_happens:
        before = group
        present = {member.id for member in before.members}
        try:
            group = stepped(before, step, random)
        except InputError:
            continue
        _learn(group, sent, learnt, random)
        made = {epoch.number for epoch in group.epochs} - {one.number for one in before.epochs}
        left = present - {member.id for member in group.members}
        joined = {member.id for member in group.members} - present
        for name in left:  # who left opens nothing of what came then
            assert not group.opens(name) & made
        for name in joined:  # who joined opens nothing that was, unless it was handed on
            earlier = group.opens(name) - before.opens(name) - made
            assert earlier == ({step[2]} - before.opens(name) if step[0] == "hand on" else set())
        _legal(group)
    for name, keys in learnt.items():
        assert set(keys) == group.opens(name)
        for number, message in sent.items():
            if number in keys:
                assert open_(keys[number], message, aad=b"") == b"event"
        for number in set(sent) - set(keys):
            for key in keys.values():
                try:
                    open_(key, sent[number], aad=b"")
                except DecryptionError:
                    continue
                raise AssertionError("a key opened another epoch")


def _learn(
    group: TrustGroup,
    sent: dict[int, bytes],
    learnt: dict[str, dict[int, bytes]],
    random: SeededRandom,
) -> None:
    for epoch in group.epochs:
        if epoch.state != "retired" and epoch.number not in sent:
            sent[epoch.number] = seal(epoch.key, b"event", aad=b"", random=random)
    for member in group.members:
        fresh = [wrap for wrap in group.wraps(member.id) if wrap.epoch not in learnt[member.id]]
        for wrap in fresh:
            key = open_wrap(wrap, PEOPLE[member.id], audience=member.id)
            learnt[member.id][wrap.epoch] = key


def _legal(group: TrustGroup) -> None:
    states = [epoch.state for epoch in group.epochs]
    assert states.count("current") == 1
    assert states.count("staged") <= 1
    assert [epoch.number for epoch in group.epochs] == list(range(1, len(states) + 1))
    live = [one for one in states if one != "retired"]
    assert live == sorted(live, key=["draining", "current", "staged"].index)
    assert all((epoch.state == "retired") == (epoch.key == b"") for epoch in group.epochs)
    keys = [epoch.key for epoch in group.epochs if epoch.key]
    assert len(set(keys)) == len(keys)
    for member in group.members:  # every present member opens what is current or comes next
        target = group.current if group.staged is None else group.staged
        assert target.number in group.opens(member.id)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps.filter(lambda step: step[2] is not False), max_size=8))
def test_without_staging_every_present_member_opens_the_current_epoch(
    what_happens: list[tuple[str, Any, Any]],
) -> None:
    random = SeededRandom(b"group")
    group = TrustGroup.found("overlay:north", random=random)
    for step in what_happens:
        try:
            group = stepped(group, step, random)
        except InputError:
            continue
        for member in group.members:
            assert group.current.number in group.opens(member.id)
            assert group.current.number in {wrap.epoch for wrap in group.wraps(member.id)}
