"""Confirmations of clients, and what an agent puts away for itself."""

from dataclasses import replace

import pytest

from policyengine.bundles import (
    Confirmation,
    backlog_queue,
    open_confirmation,
    open_waiting,
    seal_confirmation,
    seal_waiting,
)
from policyengine.bundles.contexts import CONFIRM
from policyengine.bundles.limits import MAX_SMALL
from policyengine.bundles.sealing import seal_body, write_body
from policyengine.errors import InputError, RejectedError
from policyengine.primitives.hpke import generate_sealing_key
from policyengine.primitives.signatures import generate_signing_key
from policyengine.primitives.signatures import sign as sign_with
from tests.support import bundle_samples as samples

AGENT, OTHER = generate_sealing_key(), generate_sealing_key()
CLIENT_SIGN, AGENT_SIGN = generate_signing_key(), generate_signing_key()
SAID = Confirmation("heating", samples.HANDLE, samples.NOW, (b"k" * 16,), "a" * 32, (b"h" * 16,))


def sealed(said: Confirmation = SAID) -> bytes:
    return seal_confirmation(said, signing_key=CLIENT_SIGN, recipient=AGENT.public, agent="alpha")


def test_a_confirmation_comes_through():
    opened = open_confirmation(sealed(), key=AGENT, agent="alpha")
    opened.verify(CLIENT_SIGN.public)
    assert opened.confirmation == SAID
    with pytest.raises(RejectedError) as caught:
        opened.verify(AGENT_SIGN.public)
    assert caught.value.reason == "signature"


def test_one_that_says_nothing_is_the_shortest():
    nothing = Confirmation("heating", samples.HANDLE, samples.NOW)
    assert set(nothing.to_json()) == {"domain", "client", "issued"}
    assert open_confirmation(sealed(nothing), key=AGENT, agent="alpha").confirmation == nothing


@pytest.mark.parametrize(("key", "agent"), [(OTHER, "alpha"), (AGENT, "beta")])
def test_it_opens_for_its_agent_alone(key, agent):
    with pytest.raises(RejectedError) as caught:
        open_confirmation(sealed(), key=key, agent=agent)
    assert caught.value.reason == "malformed"


def test_it_cannot_be_signed_as_another():
    forged = seal_body(
        CONFIRM,
        write_body(SAID),
        address="alpha",
        signer="p-somebody",
        sign=lambda purpose, payload: sign_with(CLIENT_SIGN, purpose, payload),
        recipient=AGENT.public,
        limit=MAX_SMALL,
    )
    with pytest.raises(RejectedError) as caught:
        open_confirmation(forged, key=AGENT, agent="alpha")
    assert caught.value.reason == "malformed"


@pytest.mark.parametrize(
    "change", [{"done": (b"short",)}, {"answers": "a" * 31}, {"held": (b"k" * 16,) * 8193}]
)
def test_what_it_may_not_say(change):
    with pytest.raises(InputError):
        replace(SAID, **change)


def put_away(key=AGENT_SIGN, agent="alpha") -> bytes:
    return seal_waiting(samples.routed(), signing_key=key, recipient=AGENT.public, agent=agent)


def test_what_is_put_away_is_read_by_its_agent_alone():
    args = {"key": AGENT, "public": AGENT_SIGN.public, "agent": "alpha"}
    assert open_waiting(put_away(), **args) == samples.routed()
    for forged, reason in (
        (put_away(key=CLIENT_SIGN), "signature"),
        (put_away(agent="beta"), "malformed"),
    ):
        with pytest.raises(RejectedError) as caught:
            open_waiting(forged, **args)
        assert caught.value.reason == reason
    with pytest.raises(RejectedError):
        open_waiting(put_away(), **{**args, "key": OTHER})


def test_the_queue_of_a_backlog():
    assert backlog_queue("alpha", "heating", "p-01") == "pc.back.alpha.heating.p-01"
    for names in (("a.b", "d", "h"), ("a", "*", "h"), ("a", "d", ">")):
        with pytest.raises(InputError):
            backlog_queue(*names)
