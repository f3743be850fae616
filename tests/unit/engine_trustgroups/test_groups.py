"""Trust groups: transitions, what they refuse, and wraps under both suites."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.primitives import (
    SealingKey,
    SeededRandom,
    generate_hybrid_key,
    generate_sealing_key,
)
from policyengine.trustgroups import (
    STATES,
    TRANSITIONS,
    WRAP_SIZES,
    Member,
    TrustGroup,
    Wrap,
    check_transition,
    open_wrap,
    wrap_key,
)

KEYS = {
    "agent:b1": generate_sealing_key(),
    "agent:b2": generate_hybrid_key(),
    "agent:b3": generate_sealing_key(),
}
B1, B2, B3 = (Member(name, key.public) for name, key in KEYS.items())


def police(*members: Member) -> TrustGroup:
    return TrustGroup.found("key:police", members, random=SeededRandom(b"police"))


def states(group: TrustGroup) -> list[str]:
    return [epoch.state for epoch in group.epochs]


def opened(group: TrustGroup, member: Member) -> dict[int, bytes]:
    return {
        wrap.epoch: open_wrap(wrap, KEYS[member.id], audience=member.id)
        for wrap in group.wraps(member.id)
    }


def test_an_epoch_moves_on_only() -> None:
    legal = {(state, after) for state, next_ in TRANSITIONS.items() for after in next_}
    assert legal == {
        ("staged", "current"), ("staged", "retired"),
        ("current", "draining"), ("draining", "retired"),
    }  # fmt: skip
    for state in STATES:
        for after in STATES:
            if (state, after) in legal:
                check_transition(state, after)
            else:
                with pytest.raises(InputError) as caught:
                    check_transition(state, after)
                assert caught.value.kind == "invalid"
    for words in (("paused", "current"), ("current", "paused")):
        with pytest.raises(InputError) as caught:
            check_transition(*words)
        assert caught.value.kind == "unknown"


def test_a_group_begins_with_one_epoch_that_every_member_opens() -> None:
    group = police(B2, B1)
    assert [member.id for member in group.members] == ["agent:b1", "agent:b2"]
    assert states(group) == ["current"]
    assert opened(group, B1) == opened(group, B2) == {1: group.current.key}
    assert [len(group.wraps(one.id)[0].sealed) for one in (B1, B2)] == list(WRAP_SIZES)
    assert repr(group.current.key) not in repr(group)
    assert police(B1, B2) == group  # the source of randomness was pinned
    assert TrustGroup.found("overlay:north").members == ()


def test_who_leaves_is_given_nothing_of_the_next_epoch() -> None:
    before = police(B1, B2)
    after = before.remove_member("agent:b1")
    assert states(after) == ["draining", "current"]
    assert (before.opens("agent:b1"), after.opens("agent:b1")) == ({1}, {1})
    assert after.opens("agent:b2") == {1, 2}
    assert set(opened(after, B2)) == {1, 2}
    assert after.current.key not in opened(before, B1).values()
    with pytest.raises(InputError):
        after.wraps("agent:b1")
    assert states(before) == ["current"]  # the old group is as it was


def test_who_joins_is_given_nothing_of_the_earlier_epochs() -> None:
    group = police(B1).add_member(B2)
    assert group.opens("agent:b2") == {2} == group.accepted() - {1}
    assert group.opens("agent:b1") == {1, 2}
    assert group.opens("agent:b9") == frozenset()
    assert set(opened(group, B2)) == {2}


def test_earlier_epochs_are_handed_on_on_purpose_only() -> None:
    group = police(B1).rotate().rotate().retire(1)
    older = group.add_member(B2, hand_on=[2])
    assert older.opens("agent:b2") == {2, 4}
    current = group.add_member(B2, hand_on=[3])
    assert states(current) == ["retired", "draining", "current"]  # nothing to keep from it
    assert current.opens("agent:b2") == {3}
    assert opened(current, B2) == {3: group.current.key}
    staged = group.stage().add_member(B2, hand_on=[3])
    assert states(staged) == ["retired", "draining", "current", "retired", "staged"]
    assert staged.opens("agent:b2") == {3, 5}
    for number, kind in ((1, "invalid"), (4, "invalid"), (9, "unknown")):
        with pytest.raises(InputError) as caught:
            group.stage().add_member(B2, hand_on=[number])
        assert caught.value.kind == kind


def test_an_epoch_is_staged_before_it_is_used() -> None:
    group = police(B1, B2).stage()
    assert group.staged is not None
    assert states(group) == ["current", "staged"]
    assert [wrap.state for wrap in group.wraps("agent:b1")] == ["current", "staged"]
    promoted = group.promote()
    assert (states(promoted), promoted.staged) == (["draining", "current"], None)
    assert promoted.current.key == group.staged.key
    with pytest.raises(InputError, match="no epoch of `key:police` is staged"):
        promoted.promote()
    given_up = group.stage()
    assert states(given_up) == ["current", "retired", "staged"]


def test_changes_of_membership_may_be_staged() -> None:
    joined = police(B1, B2).add_member(B3, switch=False)
    assert states(joined) == ["current", "staged"]
    assert joined.opens("agent:b3") == {2}
    left = joined.remove_member("agent:b1", switch=False)
    assert states(left) == ["current", "retired", "staged"]
    assert left.opens("agent:b1") == {1, 2}  # it was given the one that is given up
    assert left.promote().current.holders == {"agent:b2", "agent:b3"}


def test_a_retired_epoch_has_no_key() -> None:
    group = police(B1).rotate()
    ended = group.retire(1)
    assert states(ended) == ["retired", "current"]
    assert (ended.epochs[0].key, ended.accepted()) == (b"", {2})
    assert [wrap.epoch for wrap in ended.wraps("agent:b1")] == [2]
    assert ended.opens("agent:b1") == {1, 2}  # it cannot be made to forget
    with pytest.raises(InputError, match="epoch 3 is staged; stage another"):
        group.stage().retire(3)
    for number, kind in ((1, "invalid"), (2, "invalid"), (7, "unknown")):
        with pytest.raises(InputError) as caught:
            ended.retire(number)
        assert caught.value.kind == kind


def test_what_a_group_refuses() -> None:
    group = police(B1)
    calls: list[tuple[Any, str]] = [
        (lambda: group.add_member(B1), "invalid"),
        (lambda: group.remove_member("agent:b2"), "unknown"),
        (lambda: group.member("agent:b2"), "unknown"),
        (lambda: police(B1, Member("agent:b1", B3.public)), "invalid"),
        (lambda: TrustGroup.found("police"), "invalid"),
        (lambda: Member("agent:b1", b"k" * 31), "invalid"),
        (lambda: Member("", B1.public), "invalid"),
    ]
    for call, kind in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.kind == kind
    assert group.member("agent:b1") is B1


@pytest.mark.parametrize("name", sorted(KEYS))
def test_a_wrap_of_either_suite_survives_json(name: str) -> None:
    key: SealingKey = KEYS[name]
    wrap = wrap_key("key:police", 3, b"k" * 32, recipient=key.public, audience=name)
    assert len(wrap.sealed) in WRAP_SIZES
    assert Wrap.from_json(wrap.to_json()) == wrap
    assert open_wrap(wrap, key, audience=name) == b"k" * 32
    for other in (replace(wrap, epoch=4), replace(wrap, group="key:fire")):
        with pytest.raises(DecryptionError):
            open_wrap(other, key, audience=name)


def test_a_wrap_for_one_suite_does_not_open_with_a_key_of_the_other() -> None:
    wrap = wrap_key("key:police", 1, b"k" * 32, recipient=B1.public, audience="agent:b1")
    with pytest.raises(DecryptionError):
        open_wrap(wrap, KEYS["agent:b2"], audience="agent:b1")


@pytest.mark.parametrize("size", [0, 80, 82, 600, 1168, 1170])
def test_a_wrap_has_one_of_two_sizes(size: int) -> None:
    with pytest.raises(InputError, match="must have 81 or 1169 bytes"):
        Wrap("key:police", 1, b"x" * size)
    good = wrap_key("key:police", 1, b"k" * 32, recipient=B1.public, audience="agent:b1").to_json()
    with pytest.raises(DecodeError):
        Wrap.from_json({**good, "sealed": "A" * (-(-size * 4 // 3))})
