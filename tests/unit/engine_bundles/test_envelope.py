"""A bundle opens for its audience with its signature, or not at all."""

import pytest

from policyengine.bundles import (
    BundleHeader,
    OrderedColumn,
    OrderKey,
    PartRef,
    contexts,
    open_bundle,
)
from policyengine.bundles.content import AgentContent, ComparatorContent
from policyengine.errors import InputError, RejectedError
from policyengine.primitives import (
    digest,
    dumps,
    loads,
    open_sealed,
    pack,
    seal_to,
    sign,
    unpack,
)
from policyengine.primitives.canonical import unpack_all
from tests.support import bundle_samples as samples

ALPHA_KEY = samples.sealing_key("alpha")
INFO = contexts.BUNDLE + b"|agent:alpha|heating"


def opened(message, *, key=ALPHA_KEY, audience="agent:alpha", domain="heating", policy_key=None):
    return open_bundle(
        message,
        key=key,
        audience=audience,
        domain=domain,
        policy_key=policy_key or samples.AUTHORITY.public,
    )


def reason(message, **changes) -> str:
    with pytest.raises(RejectedError) as caught:
        opened(message, **changes)
    return caught.value.reason


def inside(message: bytes) -> tuple[bytes, ...]:
    """Return header, signature and parts of a message for alpha."""
    return unpack_all(open_sealed(ALPHA_KEY, unpack(message, 3)[2], info=INFO), limit=100)


def outside(*fields: bytes, address: bytes = b"agent:alpha|heating") -> bytes:
    """Seal anything for alpha, as anybody can who knows its public key."""
    sealed = seal_to(ALPHA_KEY.public, pack(*fields), info=INFO)
    return pack(contexts.BUNDLE, address, sealed)


def signed(head: bytes, *parts: bytes) -> bytes:
    """Seal a header of the authority's own with any parts."""
    return outside(head, sign(samples.AUTHORITY, contexts.BUNDLE, head), *parts)


def header_with(message: bytes, **changes) -> bytes:
    return dumps({**BundleHeader.from_json(loads(inside(message)[0])).to_json(), **changes})


def manifest(parts: dict[str, bytes]) -> list[dict[str, object]]:
    return [PartRef(name, digest(data), len(data)).to_json() for name, data in parts.items()]


def test_an_agents_bundle_opens():
    content = samples.agent_content()
    sealed = samples.bundle(content)
    result = opened(sealed.message)
    assert result.content == content
    assert result.digest == sealed.digest == digest(inside(sealed.message)[0])
    assert (result.header.revision, result.header.previous) == (7, "")
    assert result.header.audience == "agent:alpha"


def test_a_clients_bundle_opens():
    content = samples.client_content()
    sealed = samples.bundle(content)
    result = opened(
        sealed.message, key=samples.sealing_key(samples.HANDLE), audience=samples.CLIENT
    )
    assert result.content == content


def test_nothing_of_the_content_is_readable_outside():
    content = samples.agent_content()
    message = samples.bundle(content).message
    for word in (b"WaterTemperature", b"degrees", b"AP_A", samples.HANDLE.encode(), b"encoded 1"):
        assert word not in message


def test_a_bundle_for_another_audience_or_domain_is_refused():
    message = samples.bundle().message
    assert reason(message, audience="agent:beta", key=samples.sealing_key("beta")) == "audience"
    assert reason(message, audience="agent:beta") == "audience"
    assert reason(message, domain="flights") == "audience"


def test_a_rewritten_address_does_not_open_it_elsewhere():
    sealed = unpack(samples.bundle().message, 3)[2]
    message = pack(contexts.BUNDLE, b"agent:beta|heating", sealed)
    assert reason(message, audience="agent:beta", key=samples.sealing_key("beta")) == "malformed"
    assert reason(message, audience="agent:beta", key=ALPHA_KEY) == "malformed"


def test_a_foreign_key_a_stripped_signature_and_a_foreign_purpose_are_refused():
    message = samples.bundle().message
    head, signature, *parts = inside(message)
    assert reason(message, policy_key=samples.signing_key("mallory").public) == "signature"
    assert reason(samples.bundle(sign=samples.signer("mallory")).message) == "signature"
    assert reason(outside(head, b"", *parts)) == "signature"
    assert reason(outside(head, bytes(64), *parts)) == "signature"
    other = sign(samples.AUTHORITY, contexts.NOTICE, head)
    assert reason(outside(head, other, *parts)) == "signature"
    assert opened(outside(head, signature, *parts)).content == samples.agent_content()


def test_parts_of_another_bundle_are_refused():
    head, signature, *parts = inside(samples.bundle().message)
    others = inside(samples.bundle(samples.agent_content(lease_seconds=31)).message)[2:]
    assert reason(outside(head, signature, others[0], *parts[1:])) == "malformed"
    assert reason(outside(head, signature, *parts[:-1])) == "malformed"
    assert reason(outside(head, signature, *parts, b"")) == "malformed"
    assert reason(outside(head, signature, *reversed(parts))) == "malformed"


def test_what_the_authority_signed_for_someone_else_is_refused():
    message = samples.bundle().message
    parts = inside(message)[2:]
    assert reason(signed(header_with(message, audience="agent:beta"), *parts)) == "audience"
    assert reason(signed(header_with(message, domain="flights"), *parts)) == "audience"
    beta = inside_parts(samples.agent_content(agent="beta"))
    assert reason(signed(header_with(message, parts=manifest(beta)), *beta.values())) == "audience"


def test_the_last_part_holds_what_came_later_and_nothing_else():
    message = samples.bundle().message
    parts = inside_parts(samples.agent_content())
    assert opened(signed(header_with(message, parts=manifest(parts)), *parts.values()))
    for later in ({}, [], {"wraps": []}, {"unknown": 1}, {"blind": []}):
        more = {**parts, "later": dumps(later)}
        bundle = signed(header_with(message, parts=manifest(more)), *more.values())
        assert reason(bundle) == "malformed"


def inside_parts(content: AgentContent) -> dict[str, bytes]:
    """Return the parts of any content by name, as a faulty authority might send them."""
    members = content.to_json()
    layout = {
        "scope": ("domain", "agent", "overlay", "lease_seconds", "notices_through"),
        "types": ("types",),
        "peers": ("agents",),
        "clients": ("clients",),
        "epochs": ("epochs",),
        "keys": ("wraps",),
    }
    return {name: dumps({key: members[key] for key in keys}) for name, keys in layout.items()}


@pytest.mark.parametrize(
    "change",
    [
        {"types": b"[]"},
        {"types": b"{}"},
        {"types": b'{"types":[],"wraps":[]}'},
        {"types": b'{"types": []}'},
        {"types": b'{"types":[],"types":[]}'},
        {"types": b'{"types":1}'},
        {"types": b""},
        {"epochs": b'{"epochs":[{}]}'},
        {"more": b"{}"},
    ],
)
def test_signed_parts_that_are_not_strict_are_refused(change):
    message = samples.bundle().message
    parts = {**inside_parts(samples.agent_content()), **change}
    assert reason(signed(header_with(message, parts=manifest(parts)), *parts.values())) == (
        "malformed"
    )


@pytest.mark.parametrize(
    "change",
    [{"revision": 0}, {"revision": True}, {"previous": "x"}, {"unknown": 1}, {"issued": -1}],
)
def test_a_signed_header_that_is_not_strict_is_refused(change):
    message = samples.bundle().message
    assert reason(signed(header_with(message, **change), *inside(message)[2:])) == "malformed"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x00",
        b"x" * 100,
        pack(b"", b"", b""),
        pack(contexts.NOTICE, b"agent:alpha|heating", b""),
        pack(contexts.BUNDLE, b"agent:alpha|heating", b""),
        pack(contexts.BUNDLE, b"agent:alpha|heating", b"\x01" * 100),
        outside(),
        outside(b"{}"),
        outside(*([b"x"] * 67)),
        b"x" * (8 * 2**20 + 1),
    ],
    ids=[str(number) for number in range(11)],
)
def test_what_is_no_bundle_is_malformed(message):
    assert reason(message) == "malformed"


def test_an_address_that_is_not_text_is_refused():
    assert reason(outside(b"{}", address=b"\xff")) == "audience"


def test_a_bundle_has_at_most_8_mib():
    big = samples.agent_content(types=[{"name": "x" * (8 * 2**20)}])
    with pytest.raises(InputError) as caught:
        samples.bundle(big)
    assert caught.value.kind == "too-large"
    nearly = samples.agent_content(types=[{"name": "x" * (8 * 2**20 - 2**15)}])
    message = samples.bundle(nearly).message
    assert len(message) < 8 * 2**20
    assert opened(message).content == nearly


@pytest.mark.parametrize(
    "change", [{"audience": "agent:beta"}, {"audience": "client:alpha"}, {"domain": "flights"}]
)
def test_a_bundle_for_someone_elses_content_is_not_built(change):
    with pytest.raises(InputError) as caught:
        samples.bundle(**change)
    assert caught.value.kind == "invalid"


def test_a_clients_content_is_not_accepted_by_an_agent():
    with pytest.raises(InputError):
        samples.bundle(samples.client_content(), audience="agent:alpha")


K = b"k" * 32


@pytest.mark.parametrize(
    ("audience", "content"),
    [
        (
            "agent:alpha",
            samples.agent_content(ordered=(OrderedColumn("T", "x", 1, "current", "sbm2"),)),
        ),
        (
            "comparator:beside",
            ComparatorContent("heating", "beside", (OrderKey("T", "x", 1, "current", K),)),
        ),
    ],
)
def test_what_is_said_of_order_travels(audience, content):
    key = samples.sealing_key(audience.partition(":")[2])
    message = samples.bundle(content).message
    assert opened(message, audience=audience, key=key).content == content
