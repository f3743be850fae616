"""Deliveries in sessions: one key for many, each message opened by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from policyengine.bundles import (
    DeliverySession,
    OpenedSessions,
    SealedSession,
    begin_session,
    contexts,
    open_delivery,
    seal_delivery,
    seal_in_session,
)
from policyengine.bundles.limits import MAX_MESSAGE
from policyengine.bundles.sealing import seal_body, write_body
from policyengine.bundles.sessions import seal_body_in
from policyengine.errors import InputError, RejectedError
from policyengine.primitives import SeededRandom, SigningKey, pack, sign, unpack
from policyengine.primitives.hpke import generate_hybrid_key
from tests.support import bundle_samples as samples

CLIENT = samples.sealing_key(samples.HANDLE)
RANDOM = SeededRandom(b"sessions")
KEYS = samples.VERIFY_KEYS.__getitem__


def begun(recipient: bytes = CLIENT.public, **changes: Any) -> SealedSession:
    made: dict[str, Any] = {
        "domain": "heating",
        "epoch": 1,
        "agent": "alpha",
        "signing_key": samples.signing_key("alpha"),
        "recipient": recipient,
        "handle": samples.HANDLE,
        "random": RANDOM,
    }
    return begin_session(**{**made, **changes})


def sealed(held: SealedSession, **changes: Any) -> bytes:
    return seal_in_session(samples.delivery(**changes), held, random=RANDOM)


opened = partial(open_delivery, key=CLIENT, handle=samples.HANDLE, verify=KEYS)


def reason(call: Callable[..., object], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(RejectedError) as caught:
        call(*args, **kwargs)
    return caught.value.reason


class Counting(OpenedSessions):
    """Counts the verification keys that are asked for: two where a session is opened anew."""

    asked = 0

    def verify(self, agent: str) -> bytes:
        self.asked += 1
        return KEYS(agent)


def test_every_message_opens_by_itself_and_in_any_order() -> None:
    held = begun()
    messages = [sealed(held, part=part) for part in (0, 1)]
    for part in (1, 0):
        assert opened(messages[part]) == samples.delivery(part=part)
    assert sealed(held) != sealed(held)  # a fresh nonce each time


def test_both_forms_are_read_side_by_side() -> None:
    first = seal_delivery(
        samples.delivery(),
        signing_key=samples.signing_key("alpha"),
        recipient=CLIENT.public,
        handle=samples.HANDLE,
    )
    remembered = OpenedSessions()
    assert opened(first, sessions=remembered) == opened(sealed(begun()), sessions=remembered)
    assert len(remembered) == 1


def test_a_hybrid_key_has_sessions_too() -> None:
    key = generate_hybrid_key()
    message = sealed(begun(key.public))
    assert open_delivery(message, key=key, handle=samples.HANDLE, verify=KEYS).part == 0
    assert reason(opened, message) == "malformed"


def test_another_client_opens_nothing() -> None:
    message = sealed(begun())
    other = samples.sealing_key(samples.OTHER)
    remembered = OpenedSessions()
    opened(message, sessions=remembered)
    for handle in (samples.OTHER, samples.HANDLE):
        assert reason(open_delivery, message, key=other, handle=handle, verify=KEYS) == "malformed"
        # not even through a memory in which its owner opened it
        assert (
            reason(
                open_delivery, message, key=other, handle=handle, verify=KEYS, sessions=remembered
            )
            == "malformed"
        )
    assert (
        reason(
            open_delivery, message, key=CLIENT, handle=samples.OTHER, verify=KEYS,
            sessions=remembered,
        )
        == "malformed"
    )  # fmt: skip


def test_a_key_of_one_client_is_of_no_use_with_another() -> None:
    mine, other = begun(), begun(samples.sealing_key(samples.OTHER).public, handle=samples.OTHER)
    assert mine.session.key != other.session.key
    # who knows the key of the other session cannot put it before ours
    foreign = SealedSession(other.session, samples.HANDLE, mine.sealed)
    assert reason(opened, sealed(foreign)) == "malformed"
    assert reason(opened, sealed(other)) == "malformed"


def test_a_ciphertext_counts_only_with_the_session_that_it_was_made_in() -> None:
    first, second = begun(), begun()
    ciphertext = unpack(sealed(first)[1:], 2)[1]
    assert reason(opened, b"\x80" + pack(second.sealed, ciphertext)) == "malformed"
    # the same key, signed and sealed once more: other sealed bytes, so another session
    again = SealedSession(first.session, first.handle, begun().sealed)
    assert reason(opened, b"\x80" + pack(again.sealed, ciphertext)) == "malformed"


@pytest.mark.parametrize(
    "change", [{"domain": "flights"}, {"agent": "gamma"}, {"epoch": 2}], ids=str
)
def test_a_session_is_for_its_own_agent_domain_and_epoch(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="other deliveries"):
        sealed(begun(), **change)
    body = write_body(samples.delivery(**change))
    assert reason(opened, seal_body_in(begun(), body, random=RANDOM)) == "malformed"


@pytest.mark.parametrize("change", [{"domain": "flights"}, {"agent": "gamma"}, {"epoch": 2}])
def test_what_a_session_is_for_stands_in_what_is_authenticated(change: dict[str, Any]) -> None:
    held = begun()
    claimed = replace(held, session=replace(held.session, **change))
    body = write_body(samples.delivery(**change))
    assert reason(opened, seal_body_in(claimed, body, random=RANDOM)) == "malformed"


def test_the_agent_must_have_signed_the_session() -> None:
    forged = begun(signing_key=samples.signing_key(samples.OTHER))
    assert reason(opened, sealed(forged)) == "signature"
    assert reason(opened, sealed(begun()), verify={}.__getitem__) == "signature"


def test_a_session_that_names_two_agents_is_refused() -> None:
    session = DeliverySession("heating", "gamma", 1, b"k" * 32)
    both = seal_body(
        contexts.SESSION,
        write_body(session),
        address=samples.HANDLE,
        signer="alpha",
        sign=partial(sign, samples.signing_key("alpha")),
        recipient=CLIENT.public,
        limit=MAX_MESSAGE,
    )
    held = SealedSession(session, samples.HANDLE, both)
    assert reason(opened, sealed(held, agent="gamma")) == "malformed"


def test_a_session_is_opened_once_and_its_signer_is_asked_for_each_time() -> None:
    remembered, held = Counting(), begun()
    for part in (0, 1, 0):
        opened(sealed(held, part=part), verify=remembered.verify, sessions=remembered)
    assert (len(remembered), remembered.asked) == (1, 3)


def test_an_agent_that_may_not_sign_any_more_is_not_believed_from_memory() -> None:
    remembered, held = OpenedSessions(), begun()
    opened(sealed(held), sessions=remembered)
    assert reason(opened, sealed(held), sessions=remembered, verify={}.__getitem__) == "signature"
    renewed = SigningKey(b"n" * 32).public
    assert (
        reason(opened, sealed(held), sessions=remembered, verify=lambda _: renewed) == "signature"
    )
    assert opened(sealed(held), sessions=remembered) == samples.delivery()


def test_memory_is_bounded_and_what_is_used_stays() -> None:
    remembered, kept = Counting(2), begun()
    for _ in range(5):
        for held in (kept, begun()):
            opened(sealed(held), verify=remembered.verify, sessions=remembered)
    assert len(remembered) == 2
    before = remembered.asked
    opened(sealed(kept), verify=remembered.verify, sessions=remembered)
    assert remembered.asked == before + 1


def test_what_does_not_open_is_not_remembered() -> None:
    remembered = OpenedSessions()
    for message in (b"\x80", b"\x80" + pack(b"a", b"b"), sealed(begun(handle=samples.OTHER))):
        assert reason(opened, message, sessions=remembered) == "malformed"
    forged = begun(signing_key=samples.signing_key(samples.OTHER))
    assert reason(opened, sealed(forged), sessions=remembered) == "signature"
    assert len(remembered) == 0


def test_sizes_are_capped() -> None:
    with pytest.raises(InputError) as caught:
        sealed(begun(), attributes={"blob": "x" * MAX_MESSAGE})
    assert caught.value.kind == "too-large"
    assert reason(opened, b"\x80" + bytes(MAX_MESSAGE)) == "malformed"
    assert reason(opened, b"\x80" + pack(bytes(9000), b"")) == "malformed"


def test_keys_are_never_shown() -> None:
    held = begun()
    assert held.session.key.hex() not in repr(held)
    assert repr(held.session.key) not in repr(held)


def test_the_same_key_is_never_made_twice() -> None:
    assert len({begun().session.key for _ in range(50)}) == 50
