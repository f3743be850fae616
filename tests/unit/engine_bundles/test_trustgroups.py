"""Epochs and key wraps: a wrap opens for one member, group and epoch."""

from dataclasses import replace

import pytest

from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.primitives import seal_to
from policyengine.trustgroups import STATES, Wrap, may_open, may_seal, open_wrap, wrap_key
from tests.support.bundle_samples import sealing_key

MEMBER = sealing_key("alpha")
KEY = bytes(range(32))


def made(group: str = "key:tail", epoch: int = 3, state: str = "staged") -> Wrap:
    return wrap_key(group, epoch, KEY, recipient=MEMBER.public, audience="agent:alpha", state=state)


def test_what_each_state_of_an_epoch_permits():
    assert [(state, may_seal(state), may_open(state)) for state in STATES] == [
        ("staged", False, True),
        ("current", True, True),
        ("draining", False, True),
        ("retired", False, False),
    ]


@pytest.mark.parametrize("ask", [may_open, may_seal])
def test_an_unknown_state_permits_nothing(ask):
    with pytest.raises(InputError) as caught:
        ask("paused")
    assert caught.value.kind == "unknown"


def test_a_wrap_opens_for_its_member_and_survives_json():
    wrap = made()
    assert (wrap.group, wrap.epoch, wrap.state) == ("key:tail", 3, "staged")
    assert open_wrap(wrap, MEMBER, audience="agent:alpha") == KEY
    assert Wrap.from_json(wrap.to_json()) == wrap
    assert KEY not in wrap.sealed


def test_the_state_may_change_without_a_new_wrap():
    wrap = replace(made(), state="current")
    assert open_wrap(wrap, MEMBER, audience="agent:alpha") == KEY


def test_a_wrap_opens_for_nobody_and_nothing_else():
    wrap = made()
    for other in (
        replace(wrap, group="key:tails"),
        replace(wrap, group="overlay:tail"),
        replace(wrap, epoch=4),
        replace(wrap, sealed=made(epoch=4).sealed),
        replace(wrap, sealed=wrap.sealed[:-1] + bytes([wrap.sealed[-1] ^ 1])),
    ):
        with pytest.raises(DecryptionError):
            open_wrap(other, MEMBER, audience="agent:alpha")
    with pytest.raises(DecryptionError):
        open_wrap(wrap, MEMBER, audience="agent:beta")
    with pytest.raises(DecryptionError):
        open_wrap(wrap, sealing_key("beta"), audience="agent:alpha")


@pytest.mark.parametrize(
    ("group", "epoch", "key"),
    [
        ("tail", 1, KEY),
        ("key:", 1, KEY),
        ("key:Tail", 1, KEY),
        ("other:tail", 1, KEY),
        ("key:tail", -1, KEY),
        ("key:tail", 1, KEY[:-1]),
    ],
)
def test_a_wrap_out_of_range_cannot_be_made(group, epoch, key):
    with pytest.raises(InputError):
        wrap_key(group, epoch, key, recipient=MEMBER.public, audience="agent:alpha")


def test_a_wrap_of_another_size_is_not_read():
    sealed = seal_to(MEMBER.public, b"k" * 31, info=b"")
    with pytest.raises(InputError):
        Wrap("key:tail", 1, sealed)
    with pytest.raises(DecodeError):
        Wrap.from_json({**made().to_json(), "state": "paused"})
