"""Whatever an attacker does to a message, it is refused or says what the signer wrote.

Two attackers. One changes bytes on the way. The other knows the recipient's public
key, which is no secret, and so may seal anything, other people's signed fields included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.bundles import (
    contexts,
    decode_request,
    open_bundle,
    open_delivery,
    open_hop,
    open_lease,
    open_notice,
    open_publication,
    open_reply,
    open_subscribe,
    seal_delivery,
    seal_hop,
    seal_lease,
    seal_notice,
    seal_publication,
    seal_reply,
    seal_subscribe,
    sign_ack,
    sign_lease_request,
    verify_ack,
    verify_lease_request,
)
from policyengine.errors import DecodeError, RejectedError
from policyengine.primitives import (
    SealingKey,
    SeededRandom,
    aead,
    open_sealed,
    pack,
    seal_to,
    unpack,
)
from tests.support import bundle_samples as samples

ALPHA = samples.sealing_key("alpha")
CLIENT = samples.sealing_key(samples.HANDLE)
CLIENT_SIGN = samples.signing_key(samples.HANDLE)
AGENT_SIGN = samples.signing_key("alpha")
KEYS = samples.VERIFY_KEYS.__getitem__
AUTHORITY = samples.AUTHORITY.public
SEEDED = SeededRandom(b"property")
HOP_AAD = contexts.HOP + b"|" + (4).to_bytes(8, "big")


@dataclass(frozen=True)
class Kind:
    """One kind of message: the bytes, how to open them, and the attacker's way inside."""

    message: bytes
    opened: Callable[[bytes], object]
    unwrap: Callable[[bytes], bytes]
    wrap: Callable[[bytes], bytes]


def sealed_kind(
    purpose: bytes,
    address: str,
    key: SealingKey,
    message: bytes,
    opened: Callable[[bytes], object],
) -> Kind:
    info = purpose + b"|" + address.encode()
    return Kind(
        message,
        opened,
        lambda data: open_sealed(key, data, info=info),
        lambda inner: seal_to(key.public, inner, info=info),
    )


def bundle_kind() -> Kind:
    info = contexts.BUNDLE + b"|agent:alpha|heating"

    def opened(data: bytes) -> object:
        return open_bundle(
            data, key=ALPHA, audience="agent:alpha", domain="heating", policy_key=AUTHORITY
        )

    return Kind(
        samples.bundle().message,
        opened,
        lambda data: open_sealed(ALPHA, unpack(data, 3)[2], info=info),
        lambda inner: pack(
            contexts.BUNDLE, b"agent:alpha|heating", seal_to(ALPHA.public, inner, info=info)
        ),
    )


def hop_kind() -> Kind:
    def opened(data: bytes) -> object:
        return open_hop(data, hop_keys={4: samples.HOP_KEY}, verify=KEYS)

    message = seal_hop(
        samples.routed(),
        signing_key=AGENT_SIGN,
        hop_key=samples.HOP_KEY,
        epoch=4,
        random=SEEDED,
    )
    return Kind(
        message,
        opened,
        lambda data: aead.open_(samples.HOP_KEY, unpack(data, 2)[1], aad=HOP_AAD),
        lambda inner: pack(
            (4).to_bytes(8, "big"),
            aead.seal(samples.HOP_KEY, inner, aad=HOP_AAD, random=SEEDED),
        ),
    )


def to_agent(purpose: bytes, message: bytes, open_it: Callable[..., object]) -> Kind:
    def opened(data: bytes) -> object:
        signed = open_it(data, key=ALPHA, agent="alpha")
        signed.verify(CLIENT_SIGN.public)  # type: ignore[attr-defined]
        return signed

    return sealed_kind(purpose, "alpha", ALPHA, message, opened)


def to_client(purpose: bytes, message: bytes, open_it: Callable[..., object]) -> Kind:
    opened = partial(open_it, key=CLIENT, handle=samples.HANDLE, verify=KEYS)
    return sealed_kind(purpose, samples.HANDLE, CLIENT, message, opened)


def plain_kind(message: bytes, verified: Callable[..., object]) -> Kind:
    def opened(data: bytes) -> object:
        return verified(decode_request(data), AGENT_SIGN.public)

    return Kind(message, opened, lambda data: data, lambda inner: inner)


AGENT_ARGS = {"signing_key": CLIENT_SIGN, "recipient": ALPHA.public, "agent": "alpha"}
CLIENT_ARGS = {"signing_key": AGENT_SIGN, "recipient": CLIENT.public, "handle": samples.HANDLE}
BY_AUTHORITY = {"sign": samples.signer("authority"), "recipient": ALPHA.public}
KINDS = {
    "bundle": bundle_kind(),
    "notice": sealed_kind(
        contexts.NOTICE,
        "agent:alpha",
        ALPHA,
        seal_notice(samples.notice(), **BY_AUTHORITY),
        partial(open_notice, key=ALPHA, audience="agent:alpha", notice_key=AUTHORITY),
    ),
    "lease": sealed_kind(
        contexts.LEASE,
        "agent:alpha",
        ALPHA,
        seal_lease(samples.lease(), **BY_AUTHORITY),
        partial(open_lease, key=ALPHA, audience="agent:alpha", lease_key=AUTHORITY),
    ),
    "lease request": plain_kind(
        sign_lease_request(samples.lease_request(), AGENT_SIGN).encode(), verify_lease_request
    ),
    "acknowledgement": plain_kind(
        sign_ack(samples.acknowledgement(), AGENT_SIGN).encode(), verify_ack
    ),
    "publication": to_agent(
        contexts.PUBLICATION,
        seal_publication(samples.publication(), **AGENT_ARGS),
        open_publication,
    ),
    "subscribe": to_agent(
        contexts.SUBSCRIBE,
        seal_subscribe(samples.subscribe_request(), **AGENT_ARGS),
        open_subscribe,
    ),
    "hop": hop_kind(),
    "delivery": to_client(
        contexts.DELIVERY, seal_delivery(samples.delivery(), **CLIENT_ARGS), open_delivery
    ),
    "reply": to_client(contexts.REPLY, seal_reply(samples.reply(), **CLIENT_ARGS), open_reply),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
quick = settings(deadline=None, max_examples=150)


def refused(kind: Kind, data: bytes) -> bool:
    """Tell whether the message is refused in an orderly way; another error is a failure."""
    try:
        kind.opened(data)
    except (RejectedError, DecodeError):
        return True
    return False


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """Change some bytes so that the result differs."""
    at = draw(st.integers(0, len(data) - 1))
    to = draw(st.integers(at + 1, len(data)))
    changed = draw(
        st.sampled_from(
            [
                data[:at] + bytes([data[at] ^ (1 << draw(st.integers(0, 7)))]) + data[at + 1 :],
                data[:at],
                data[at + 1 :],
                data[:at] + data[to:],
                data[:to] + data[at:to] + data[to:],
                data[:at] + draw(st.binary(min_size=1, max_size=80)) + data[at:],
                data[:at] + draw(st.binary(min_size=to - at, max_size=to - at)) + data[to:],
                data[:at] + data[at:to][::-1] + data[to:],
            ]
        )
    )
    return changed if changed != data else data + b"\x00"


@every_kind
def test_the_message_itself_opens_by_either_way(kind):
    kind.opened(kind.message)
    assert kind.opened(kind.wrap(kind.unwrap(kind.message))) == kind.opened(kind.message)


@every_kind
def test_a_flip_of_any_byte_is_refused(kind):
    data = kind.message
    for at in range(len(data)):
        flipped = data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]
        assert refused(kind, flipped), at


@every_kind
def test_every_truncation_is_refused(kind):
    data = kind.message
    for size in range(0, len(data), 1 + len(data) // 300):
        assert refused(kind, data[:size]), size


@every_kind
@given(data=st.data())
@quick
def test_a_message_changed_on_the_way_is_refused(kind, data):
    assert refused(kind, data.draw(mutations(kind.message)))


@every_kind
@given(data=st.data())
@quick
def test_a_message_changed_inside_its_seal_is_refused(kind, data):
    inner = kind.unwrap(kind.message)
    assert refused(kind, kind.wrap(data.draw(mutations(inner))))


@every_kind
def test_a_flip_of_any_byte_inside_the_seal_is_refused(kind):
    inner = kind.unwrap(kind.message)
    for at in range(len(inner)):
        flipped = inner[:at] + bytes([inner[at] ^ (1 << at % 8)]) + inner[at + 1 :]
        assert refused(kind, kind.wrap(flipped)), at


@every_kind
@given(data=st.binary(max_size=400))
@quick
def test_noise_is_refused_and_never_a_crash(kind, data):
    assert refused(kind, data)
    assert refused(kind, kind.wrap(data))


@pytest.mark.parametrize("name", KINDS)
def test_a_message_of_one_kind_never_passes_for_another(name):
    for other, kind in KINDS.items():
        if other != name:
            assert refused(kind, KINDS[name].message), other
            assert refused(kind, kind.wrap(KINDS[name].unwrap(KINDS[name].message))), other


@given(name=st.from_regex("[a-z0-9-]{1,64}", fullmatch=True))
@quick
def test_a_bundle_opens_for_nobody_else(name):
    if name == "alpha":
        return
    message = samples.bundle().message
    for key in (ALPHA, samples.sealing_key(name)):
        with pytest.raises(RejectedError) as caught:
            open_bundle(
                message, key=key, audience=f"agent:{name}", domain="heating", policy_key=AUTHORITY
            )
        assert caught.value.reason == "audience"


@given(handle=st.from_regex("p-[0-9a-f]{16}", fullmatch=True))
@quick
def test_a_delivery_opens_for_its_client_only(handle):
    if handle == samples.HANDLE:
        return
    message = KINDS["delivery"].message
    for key in (CLIENT, samples.sealing_key(handle)):
        with pytest.raises(RejectedError):
            open_delivery(message, key=key, handle=handle, verify=KEYS)
