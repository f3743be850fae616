"""Publications, hops, deliveries, subscriptions and replies."""

from dataclasses import replace
from functools import partial

import pytest

from policyengine.bundles import (
    contexts,
    open_delivery,
    open_hop,
    open_publication,
    open_reply,
    open_subscribe,
    seal_delivery,
    seal_hop,
    seal_publication,
    seal_reply,
    seal_subscribe,
)
from policyengine.bundles.limits import MAX_MESSAGE
from policyengine.bundles.sealing import seal_body
from policyengine.errors import InputError, RejectedError
from policyengine.primitives import SeededRandom, aead, dumps, pack, seal_to, sign
from tests.support import bundle_samples as samples

ALPHA = samples.sealing_key("alpha")
CLIENT = samples.sealing_key(samples.HANDLE)
CLIENT_SIGN = samples.signing_key(samples.HANDLE)
KEYS = samples.VERIFY_KEYS.__getitem__


def reason(call, *args, **kwargs) -> str:
    with pytest.raises(RejectedError) as caught:
        call(*args, **kwargs)
    return caught.value.reason


# --- client to agent -------------------------------------------------------------------

TO_AGENT = {
    "publication": (
        contexts.PUBLICATION,
        samples.publication,
        seal_publication,
        open_publication,
        lambda opened: opened.part,
        "publisher",
    ),
    "subscribe": (
        contexts.SUBSCRIBE,
        samples.subscribe_request,
        seal_subscribe,
        open_subscribe,
        lambda opened: opened.request,
        "client",
    ),
}


@pytest.fixture(params=TO_AGENT)
def to_agent(request):
    return TO_AGENT[request.param]


def test_a_clients_message_opens_at_its_agent_and_verifies(to_agent):
    _, make, seal, opened, said, _ = to_agent
    message = seal(make(), signing_key=CLIENT_SIGN, recipient=ALPHA.public, agent="alpha")
    result = opened(message, key=ALPHA, agent="alpha")
    assert said(result) == make()
    result.verify(CLIENT_SIGN.public)
    assert reason(result.verify, samples.signing_key(samples.OTHER).public) == "signature"
    assert reason(replace(result, signature=b"").verify, CLIENT_SIGN.public) == "signature"
    assert reason(replace(result, agent="beta").verify, CLIENT_SIGN.public) == "signature"
    assert dumps(make().to_json()) not in message


def test_a_clients_message_opens_nowhere_else(to_agent):
    _, make, seal, opened, _, _ = to_agent
    message = seal(make(), signing_key=CLIENT_SIGN, recipient=ALPHA.public, agent="alpha")
    beta = samples.sealing_key("beta")
    assert reason(opened, message, key=beta, agent="alpha") == "malformed"
    assert reason(opened, message, key=ALPHA, agent="beta") == "malformed"
    assert reason(opened, message[:-1], key=ALPHA, agent="alpha") == "malformed"
    assert reason(opened, bytes(MAX_MESSAGE + 1), key=ALPHA, agent="alpha") == "malformed"


def test_an_agent_cannot_pass_a_clients_message_on_as_the_clients_own(to_agent):
    purpose, make, seal, opened, _, _ = to_agent
    message = seal(make(), signing_key=CLIENT_SIGN, recipient=ALPHA.public, agent="alpha")
    seen = opened(message, key=ALPHA, agent="alpha")
    beta = samples.sealing_key("beta")
    inner = pack(samples.HANDLE.encode(), seen.body, seen.signature)
    passed_on = seal_to(beta.public, inner, info=purpose + b"|beta")
    result = opened(passed_on, key=beta, agent="beta")
    assert reason(result.verify, CLIENT_SIGN.public) == "signature"


def test_a_clients_message_names_one_client_and_is_strict(to_agent):
    purpose, make, _, opened, _, who = to_agent

    def message(body: dict, signer: str) -> bytes:
        return seal_body(
            purpose,
            dumps(body),
            address="alpha",
            signer=signer,
            sign=partial(sign, CLIENT_SIGN),
            recipient=ALPHA.public,
            limit=MAX_MESSAGE,
        )

    whole = make().to_json()
    assert getattr(make(), who) == samples.HANDLE
    for body, signer in (
        (whole, samples.OTHER),
        ({**whole, "more": 1}, samples.HANDLE),
        ({**whole, "domain": "Heating"}, samples.HANDLE),
        ({**whole, "issued": 1.0}, samples.HANDLE),
    ):
        assert reason(opened, message(body, signer), key=ALPHA, agent="alpha") == "malformed"


@pytest.mark.parametrize(
    "change",
    [
        {"publication": "0" * 31},
        {"publisher": "P"},
        {"part": 2},
        {"part": -1},
        {"parts": 0},
        {"parts": 65},
        {"overlay": "A"},
        {"policy": ""},
        {"tags": (b"t" * 15,)},
        {"tags": (b"t" * 16,) * 4097},
        {"attributes": {"a": None}},
        {"attributes": {"": 1}},
        {"type": ""},
    ],
)
def test_a_part_out_of_range_cannot_be_made(change):
    with pytest.raises(InputError):
        samples.publication(**change)


@pytest.mark.parametrize(
    "change",
    [
        {"action": "define"},
        {"subscription": "a b"},
        {"request": ""},
        {"filter": "x" * 65_537},
        {"filter": None},
    ],
)
def test_a_subscription_out_of_range_cannot_be_made(change):
    with pytest.raises(InputError):
        samples.subscribe_request(**change)


def test_an_event_of_a_megabyte_passes_and_nine_do_not():
    big = samples.publication(attributes={"blob": "x" * 2**20})
    message = seal_publication(big, signing_key=CLIENT_SIGN, recipient=ALPHA.public, agent="alpha")
    assert open_publication(message, key=ALPHA, agent="alpha").part == big
    huge = samples.publication(attributes={"blob": "x" * 2**23})
    with pytest.raises(InputError) as caught:
        seal_publication(huge, signing_key=CLIENT_SIGN, recipient=ALPHA.public, agent="alpha")
    assert caught.value.kind == "too-large"


# --- agent to client -------------------------------------------------------------------

TO_CLIENT = {
    "delivery": (contexts.DELIVERY, samples.delivery, seal_delivery, open_delivery),
    "reply": (contexts.REPLY, samples.reply, seal_reply, open_reply),
}


@pytest.fixture(params=TO_CLIENT)
def to_client(request):
    return TO_CLIENT[request.param]


def sealed(seal, what, *, signing: str = "alpha") -> bytes:
    return seal(
        what,
        signing_key=samples.signing_key(signing),
        recipient=CLIENT.public,
        handle=samples.HANDLE,
    )


def test_an_agents_message_opens_for_its_client_only(to_client):
    _, make, seal, opened = to_client
    message = sealed(seal, make())
    assert opened(message, key=CLIENT, handle=samples.HANDLE, verify=KEYS) == make()
    other = samples.sealing_key(samples.OTHER)
    assert reason(opened, message, key=other, handle=samples.OTHER, verify=KEYS) == "malformed"
    assert reason(opened, message, key=other, handle=samples.HANDLE, verify=KEYS) == "malformed"
    assert reason(opened, message, key=CLIENT, handle=samples.OTHER, verify=KEYS) == "malformed"


def test_an_agents_message_is_signed_by_an_agent_that_the_client_knows(to_client):
    _, make, seal, opened = to_client
    args = {"key": CLIENT, "handle": samples.HANDLE, "verify": KEYS}
    assert reason(opened, sealed(seal, make(), signing="beta"), **args) == "signature"
    assert reason(opened, sealed(seal, make(agent="delta"), signing="delta"), **args) == "signature"
    assert opened(sealed(seal, make(agent="beta"), signing="beta"), **args).agent == "beta"


def test_a_client_cannot_pass_a_message_on_as_the_agents_own(to_client):
    purpose, make, _, opened = to_client
    body = dumps(make().to_json())
    signature = sign(samples.signing_key("alpha"), purpose, pack(samples.HANDLE.encode(), body))
    other = samples.sealing_key(samples.OTHER)
    info = purpose + b"|" + samples.OTHER.encode()
    message = seal_to(other.public, pack(b"alpha", body, signature), info=info)
    assert reason(opened, message, key=other, handle=samples.OTHER, verify=KEYS) == "signature"


def test_an_agents_message_names_one_agent_and_is_strict(to_client):
    purpose, make, _, opened = to_client

    def message(body: dict) -> bytes:
        return seal_body(
            purpose,
            dumps(body),
            address=samples.HANDLE,
            signer="alpha",
            sign=samples.signer("alpha"),
            recipient=CLIENT.public,
            limit=MAX_MESSAGE,
        )

    whole = make().to_json()
    for body in ({**whole, "agent": "beta"}, {**whole, "more": 1}, {**whole, "part": "0"}):
        assert (
            reason(opened, message(body), key=CLIENT, handle=samples.HANDLE, verify=KEYS)
            == "malformed"
        )


@pytest.mark.parametrize(
    "change",
    [
        {"part": 2},
        {"withheld": {"degrees": "both"}},
        {"withheld": {"house": 1}},
        {"agent": ""},
        {"revision": -1},
    ],
)
def test_a_delivery_out_of_range_cannot_be_made(change):
    with pytest.raises(InputError):
        samples.delivery(**change)


@pytest.mark.parametrize("change", [{"ok": 1}, {"dropped": "house"}, {"part": 64}])
def test_a_reply_out_of_range_cannot_be_made(change):
    with pytest.raises(InputError):
        samples.reply(**change)


# --- agent to agent --------------------------------------------------------------------


def hop(what=None, *, signing: str = "alpha", key: bytes = samples.HOP_KEY, epoch: int = 4):
    return seal_hop(
        what or samples.routed(),
        signing_key=samples.signing_key(signing),
        hop_key=key,
        epoch=epoch,
        random=SeededRandom(b"hop"),
    )


HOP_KEYS = {4: samples.HOP_KEY, 5: b"5" * 32}


def test_a_hop_opens_with_the_overlays_key():
    message = hop()
    assert open_hop(message, hop_keys=HOP_KEYS, verify=KEYS) == samples.routed()
    assert b"WaterTemperature" not in message
    assert hop() == message


def test_a_hop_of_an_epoch_that_is_not_held_is_refused():
    assert reason(open_hop, hop(epoch=3), hop_keys=HOP_KEYS, verify=KEYS) == "epoch-retired"
    assert reason(open_hop, hop(epoch=6), hop_keys=HOP_KEYS, verify=KEYS) == "epoch"
    odd = pack(b"\x04", b"x" * 40)
    assert reason(open_hop, odd, hop_keys=HOP_KEYS, verify=KEYS) == "malformed"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"x",
        hop(epoch=5),
        hop(key=b"x" * 32),
        hop()[:-1],
        pack((4).to_bytes(8, "big"), b""),
        bytes(MAX_MESSAGE + 1),
    ],
)
def test_a_damaged_hop_is_refused(message):
    assert reason(open_hop, message, hop_keys=HOP_KEYS, verify=KEYS) == "malformed"


def inner(origin: bytes, body: bytes, signature: bytes) -> bytes:
    number = (4).to_bytes(8, "big")
    fields = pack(origin, body, signature)
    aad = contexts.HOP + b"|" + number
    return pack(number, aead.seal(samples.HOP_KEY, fields, aad=aad, random=SeededRandom(b"x")))


def test_a_hop_is_signed_by_its_origin():
    body = dumps(samples.routed().to_json())
    alpha = sign(samples.signing_key("alpha"), contexts.HOP, body)
    beta = sign(samples.signing_key("beta"), contexts.HOP, body)
    foreign = sign(samples.signing_key("alpha"), contexts.DELIVERY, body)
    args = {"hop_keys": HOP_KEYS, "verify": KEYS}
    assert open_hop(inner(b"alpha", body, alpha), **args) == samples.routed()
    assert reason(open_hop, inner(b"alpha", body, beta), **args) == "signature"
    assert reason(open_hop, inner(b"alpha", body, foreign), **args) == "signature"
    assert reason(open_hop, inner(b"alpha", body, b""), **args) == "signature"
    assert reason(open_hop, inner(b"delta", body, alpha), **args) == "signature"
    assert reason(open_hop, inner(b"beta", body, beta), **args) == "malformed"
    assert reason(open_hop, inner(b"\xff", body, beta), **args) == "malformed"
    bad = sign(samples.signing_key("alpha"), contexts.HOP, b"{}")
    assert reason(open_hop, inner(b"alpha", b"{}", bad), **args) == "malformed"


def test_a_hop_that_is_too_large_is_not_sent():
    with pytest.raises(InputError) as caught:
        hop(samples.routed(clear={"blob": "x" * 2**23}))
    assert caught.value.kind == "too-large"


@pytest.mark.parametrize(
    "change",
    [
        {"part": 2},
        {"origin": "Alpha"},
        {"sealed": {"degrees": {"police": "1:AA"}}},
        {"suppressed": ("degrees",)},
        {"suppressed": ("house",)},
        {"sealed": {"house": {"police": "AA"}}},
        {"sealed": {"house": {"Police": "1:AA"}}},
        {"sealed": {"house": "1:AA"}},
        {"clear": {"x": []}},
    ],
)
def test_a_routed_part_out_of_range_cannot_be_made(change):
    with pytest.raises(InputError):
        samples.routed(**change)


def test_a_hops_epoch_is_a_number_from_0():
    with pytest.raises(InputError):
        hop(epoch=-1)
