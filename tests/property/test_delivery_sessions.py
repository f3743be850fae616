"""Whatever is done to a delivery in a session, it is refused or says what its agent wrote."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.bundles import (
    Delivery,
    OpenedSessions,
    SealedSession,
    begin_session,
    open_delivery,
    seal_in_session,
)
from policyengine.errors import RejectedError
from policyengine.primitives import SeededRandom, pack, unpack
from tests.support import bundle_samples as samples

CLIENT = samples.sealing_key(samples.HANDLE)
RANDOM = SeededRandom(b"property of sessions")
KEYS = samples.VERIFY_KEYS.__getitem__
quick = settings(deadline=None, max_examples=100)


def session(name: str = samples.HANDLE) -> SealedSession:
    return begin_session(
        "heating",
        1,
        agent="alpha",
        signing_key=samples.signing_key("alpha"),
        recipient=samples.sealing_key(name).public,
        handle=name,
        random=RANDOM,
    )


SESSION = session()
MESSAGE = seal_in_session(samples.delivery(), SESSION, random=RANDOM)


def opened(data: bytes, sessions: OpenedSessions | None = None) -> Delivery:
    return open_delivery(data, key=CLIENT, handle=samples.HANDLE, verify=KEYS, sessions=sessions)


@pytest.mark.parametrize("remembered", [False, True])
def test_a_flip_of_any_byte_is_refused(remembered: bool) -> None:
    sessions = OpenedSessions() if remembered else None
    assert opened(MESSAGE, sessions) == samples.delivery()
    for at in range(len(MESSAGE)):
        flipped = MESSAGE[:at] + bytes([MESSAGE[at] ^ (1 << at % 8)]) + MESSAGE[at + 1 :]
        with pytest.raises(RejectedError):
            opened(flipped, sessions)
    assert opened(MESSAGE, sessions) == samples.delivery()


@given(st.integers(0, len(MESSAGE) - 1), st.binary(max_size=60))
@quick
def test_what_is_cut_or_put_in_is_refused(at: int, data: bytes) -> None:
    for changed in (MESSAGE[:at] + data, MESSAGE[:at] + data + MESSAGE[at:], b"\x80" + data):
        if changed != MESSAGE:
            with pytest.raises(RejectedError):
                opened(changed, OpenedSessions())


@given(st.from_regex("p-[0-9a-f]{16}", fullmatch=True), st.booleans())
@quick
def test_it_opens_for_its_client_only(handle: str, own_key: bool) -> None:
    if handle == samples.HANDLE:
        return
    key = CLIENT if own_key else samples.sealing_key(handle)
    with pytest.raises(RejectedError):
        open_delivery(MESSAGE, key=key, handle=handle, verify=KEYS)


@given(st.data())
@quick
def test_halves_of_different_messages_do_not_fit(data: st.DataObject) -> None:
    names = st.sampled_from((samples.HANDLE, samples.HANDLE, samples.OTHER))
    one, other = session(data.draw(names)), session(data.draw(names))
    first = seal_in_session(samples.delivery(part=0), one, random=RANDOM)
    second = seal_in_session(samples.delivery(part=1), other, random=RANDOM)
    mixed = b"\x80" + pack(unpack(first[1:], 2)[0], unpack(second[1:], 2)[1])
    with pytest.raises(RejectedError):
        opened(mixed)


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 4))
@quick
def test_memory_changes_nothing_but_the_work(order: list[int], most: int) -> None:
    sessions, remembered = [session() for _ in range(6)], OpenedSessions(most)
    for number, which in enumerate(order):
        sent = samples.delivery(publication=f"{number:032x}")
        message = seal_in_session(sent, sessions[which], random=RANDOM)
        assert opened(message, remembered) == sent
        assert len(remembered) <= most
