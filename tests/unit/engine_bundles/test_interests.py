"""Announcements of interest, orders around hops, receipts, rendezvous agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from policyengine.bundles import (
    Announcement,
    Interest,
    InterestFilter,
    contexts,
    hop_kind,
    open_announcement,
    open_carried,
    open_expression,
    open_taken,
    rendezvous,
    seal_announcement,
    seal_carried,
    seal_expression,
    seal_hop,
    seal_taken,
)
from policyengine.bundles.limits import MAX_MESSAGE, MAX_SMALL
from policyengine.errors import DecodeError, DecryptionError, InputError, RejectedError
from policyengine.primitives import SeededRandom, aead, b64, dumps, pack, sign
from policyengine.primitives.canonical import unpack_all
from tests.support import bundle_samples as samples

KEYS = {4: samples.HOP_KEY, 5: b"5" * 32}
WHO = {"hop_keys": KEYS, "verify_key": samples.VERIFY_KEYS.__getitem__}
EPOCH_4 = (4).to_bytes(8, "big")


def told(what: Announcement | None = None, *, by: str = "alpha", epoch: int = 4) -> bytes:
    return seal_announcement(
        what or samples.announcement(),
        signing_key=samples.signing_key(by),
        hop_key=samples.HOP_KEY,
        epoch=epoch,
        random=SeededRandom(b"x"),
    )


def carried(hop: bytes = b"hop", epoch: int = 4) -> bytes:
    return seal_carried(
        samples.carriage(), hop, hop_key=samples.HOP_KEY, epoch=epoch, random=SeededRandom(b"x")
    )


def taken(epoch: int = 4) -> bytes:
    return seal_taken(
        samples.taken(), hop_key=samples.HOP_KEY, epoch=epoch, random=SeededRandom(b"x")
    )


def reason(call, *args, **named) -> str:
    with pytest.raises(RejectedError) as caught:
        call(*args, **named)
    return caught.value.reason


def test_messages_open_with_the_overlays_key() -> None:
    assert open_announcement(told(), **WHO) == samples.announcement()
    assert open_carried(carried(), hop_keys=KEYS) == (samples.carriage(), b"hop")
    assert open_taken(taken(), hop_keys=KEYS) == samples.taken()
    assert b"WaterTemperature" not in told()


def test_the_kind_of_a_message_is_known_before_it_is_opened() -> None:
    event = seal_hop(
        samples.routed(),
        signing_key=samples.signing_key("alpha"),
        hop_key=samples.HOP_KEY,
        epoch=4,
        random=SeededRandom(b"x"),
    )
    assert [hop_kind(each) for each in (told(), carried(), taken(), event)] == [
        "interest", "carried", "taken", "event",
    ]  # fmt: skip
    for junk in (b"", b"x", b"\xff" * 40, pack(b"hop/else", b"")):
        assert hop_kind(junk) == "event"


@pytest.mark.parametrize(("epoch", "word"), [(3, "epoch-retired"), (6, "epoch")])
@pytest.mark.parametrize("make", [told, carried, taken])
def test_a_message_of_an_epoch_that_is_not_held_is_refused(
    make: Callable[..., bytes], epoch: int, word: str
) -> None:
    message = make(epoch=epoch)
    assert reason(opener(message), message) == word


def opener(message: bytes):
    return {
        "interest": lambda data: open_announcement(data, **WHO),
        "carried": lambda data: open_carried(data, hop_keys=KEYS),
        "taken": lambda data: open_taken(data, hop_keys=KEYS),
    }[hop_kind(message)]


@pytest.mark.parametrize("message", [told(), carried(), taken()])
def test_a_damaged_message_is_refused(message: bytes) -> None:
    kind, number, sealed, *rest = unpack_all(message, limit=4)
    for damaged in (
        b"",
        message[:-1],
        message + b"x",
        pack(kind),
        pack(kind, number, sealed, *rest, b"more"),
        pack(kind, number[1:], sealed, *rest),
        pack(kind, (5).to_bytes(8, "big"), sealed, *rest),
        pack(kind, number, sealed[:-1] + bytes([sealed[-1] ^ 1]), *rest),
        pack(b"hop/else", number, sealed, *rest),
        bytes(MAX_MESSAGE + MAX_SMALL + 1),
    ):
        assert reason(opener(message), damaged) == "malformed"


def test_orders_are_bound_to_their_hop() -> None:
    kind, number, sealed, _ = unpack_all(carried(), limit=4)
    assert reason(open_carried, pack(kind, number, sealed, b"pop"), hop_keys=KEYS) == "malformed"


def inside(agent: bytes, body: bytes, signature: bytes) -> bytes:
    aad = pack(contexts.INTEREST, EPOCH_4)
    fields = pack(agent, body, signature)
    sealed = aead.seal(samples.HOP_KEY, fields, aad=aad, random=SeededRandom(b"x"))
    return pack(b"hop/interest", EPOCH_4, sealed)


def test_an_announcement_is_signed_by_its_agent() -> None:
    body = dumps(samples.announcement().to_json())
    alpha = sign(samples.signing_key("alpha"), contexts.INTEREST, body)
    beta = sign(samples.signing_key("beta"), contexts.INTEREST, body)
    foreign = sign(samples.signing_key("alpha"), contexts.HOP, body)
    for message, wrong in (
        (inside(b"alpha", body, beta), "signature"),
        (inside(b"alpha", body, foreign), "signature"),
        (inside(b"delta", body, alpha), "signature"),
        (inside(b"beta", body, beta), "malformed"),
        (inside(b"\xff", body, beta), "malformed"),
    ):
        assert reason(open_announcement, message, **WHO) == wrong
    aad = pack(contexts.INTEREST, EPOCH_4)
    two = aead.seal(samples.HOP_KEY, pack(b"alpha", body), aad=aad, random=SeededRandom(b"x"))
    short = pack(b"hop/interest", EPOCH_4, two)
    assert reason(open_announcement, short, **WHO) == "malformed"


@pytest.mark.parametrize(
    "change",
    [
        {"expires": samples.NOW},
        {"expires": samples.NOW + 3601},
        {"number": -1},
        {"agent": "Alpha"},
        {"scope": ("A", "A")},
        {"asks": 1},
    ],
)
def test_an_announcement_out_of_range_cannot_be_made(change) -> None:
    with pytest.raises(InputError):
        samples.announcement(**change)


def test_an_announcement_that_is_too_large_is_not_sent() -> None:
    long = Interest("T", tuple(InterestFilter("x" * 65_536) for _ in range(16)))
    with pytest.raises(InputError) as caught:
        told(samples.announcement(interests=(long,)))
    assert caught.value.kind == "too-large"


@pytest.mark.parametrize("change", [{"path": ()}, {"to": ()}, {"path": ("a", "a")}])
def test_orders_out_of_range_cannot_be_made(change) -> None:
    with pytest.raises(InputError):
        samples.carriage(**change)


def test_a_filter_is_in_clear_or_under_keys() -> None:
    assert InterestFilter("a == 1").sealed == {}
    for expression, sealed in (("", {}), ("a == 1", {"key": "1:AAAA"})):
        with pytest.raises(InputError):
            InterestFilter(expression, sealed)
    with pytest.raises(DecodeError):
        Interest.from_json({"type": "T", "filters": [{"expression": "", "sealed": {}}]})


PLACE = {"domain": "heating", "agent": "alpha"}
HELD = {("police", 3): b"p" * 32}


def test_a_filter_opens_under_any_of_its_keys_and_for_nobody_else() -> None:
    keys = {"fire": (1, b"f" * 32), "police": (3, b"p" * 32)}
    sealed = seal_expression("degrees > 5", keys, **PLACE, random=SeededRandom(b"x"))
    assert open_expression(sealed, HELD, **PLACE) == "degrees > 5"
    assert open_expression(sealed, {("fire", 1): b"f" * 32}, **PLACE) == "degrees > 5"
    assert open_expression(sealed, {("fire", 2): b"f" * 32}, **PLACE) is None
    with pytest.raises(DecryptionError):
        open_expression(sealed, {("police", 3): b"q" * 32}, **PLACE)
    with pytest.raises(DecryptionError):
        open_expression(sealed, HELD, domain="heating", agent="beta")
    with pytest.raises(DecryptionError):
        open_expression({"police": "3:A"}, HELD, **PLACE)
    bound = pack(contexts.INTEREST, b"heating", b"alpha", b"police", b"3")
    odd = aead.seal(b"p" * 32, b"\xff", aad=bound, random=SeededRandom(b"x"))
    with pytest.raises(DecryptionError):
        open_expression({"police": f"3:{b64(odd)}"}, HELD, **PLACE)


def test_rendezvous_agents_are_the_same_for_everybody_and_move_little() -> None:
    agents = [f"agent-{number}" for number in range(20)]
    types = [f"Type{number}" for number in range(500)]
    found = {each: rendezvous("flights", each, agents) for each in types}
    assert found == {each: rendezvous("flights", each, reversed(agents)) for each in types}
    assert all(len(set(places)) == 2 for places in found.values())
    carried_by = Counter(place for places in found.values() for place in places)
    assert len(carried_by) == 20
    assert max(carried_by.values()) < 3 * 1000 / 20
    without = {each: rendezvous("flights", each, agents[1:]) for each in types}
    for each in types:
        if agents[0] not in found[each]:
            assert without[each] == found[each]
        else:  # the other one stays
            assert set(found[each]) - {agents[0]} < set(without[each])
    assert rendezvous("flights", "T", ["a"]) == ("a",)
    assert rendezvous("flights", "T", []) == ()
