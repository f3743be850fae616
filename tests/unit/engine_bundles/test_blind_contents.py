"""Keys of the blind profiles in bundles: sealed by the authority, opened with the bundle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policyengine.bundles import (
    AgentContent,
    BlindAgentEpoch,
    BlindClientEpoch,
    ClientContent,
    OrderKey,
    ReadTerm,
    open_bundle,
    open_orders,
    read_policy,
    seal_secret,
)
from policyengine.errors import DecodeError, DecryptionError, InputError, RejectedError
from tests.support import bundle_samples as samples

KEYS = b"keys of one client"
SHARE = b"share of one client"
ORDER = b"o" * 32
COMPARATOR = "comparator:one"


def sealed(kind: Any, secret: bytes, name: str, audience: str, **changes: Any) -> bytes:
    place = {"domain": "heating", "epoch": 4, "name": name, "audience": audience, **changes}
    who = audience.partition(":")[2]
    return seal_secret(kind, secret, recipient=samples.sealing_key(who).public, **place)


def agent_epoch(share: bytes, **changes: Any) -> BlindAgentEpoch:
    return BlindAgentEpoch(4, "current", b"public", {samples.HANDLE: share}, **changes)


def client_epoch(keys: bytes, **changes: Any) -> BlindClientEpoch:
    policies = {"Telemetry": {"house": (ReadTerm(('subject.house=="7"',)),)}}
    return BlindClientEpoch(4, "current", b"public", keys, policies, **changes)


def opened(content: AgentContent | ClientContent) -> AgentContent | ClientContent:
    agent = isinstance(content, AgentContent)
    audience = samples.ALPHA if agent else samples.CLIENT
    return open_bundle(
        samples.bundle(content).message,
        key=samples.sealing_key("alpha" if agent else samples.HANDLE),
        audience=audience,
        domain="heating",
        policy_key=samples.AUTHORITY.public,
    ).content


def test_what_the_authority_sealed_is_opened_with_the_bundle() -> None:
    share = sealed("share", SHARE, samples.HANDLE, samples.ALPHA)
    agent = samples.agent_content(blind=(agent_epoch(share, sealed=True),))
    assert SHARE not in samples.bundle(agent).message
    assert opened(agent) == replace(agent, blind=(agent_epoch(SHARE),))
    keys = sealed("client", KEYS, samples.HANDLE, samples.CLIENT)
    order = sealed("order", ORDER, "Telemetry.degrees", samples.CLIENT)
    held = OrderKey("Telemetry", "degrees", 4, "current", order, sealed=True)
    client = samples.client_content(blind=(client_epoch(keys, sealed=True),), ordered=(held,))
    assert opened(client) == replace(
        client,
        blind=(client_epoch(KEYS),),
        ordered=(OrderKey("Telemetry", "degrees", 4, "current", ORDER),),
    )


def test_keys_that_were_never_sealed_apart_stay_as_they_are() -> None:
    order = OrderKey("Telemetry", "degrees", 4, "current", ORDER)
    for content in (
        samples.agent_content(blind=(agent_epoch(SHARE),)),
        samples.client_content(blind=(client_epoch(KEYS),), ordered=(order,)),
        samples.agent_content(),
        samples.client_content(),
    ):
        assert opened(content) == content


@pytest.mark.parametrize(
    "wrong",
    [
        {"domain": "flights"},
        {"epoch": 5},
        {"name": samples.OTHER},
        {"audience": "agent:beta"},
    ],
)
def test_a_key_in_another_place_opens_nowhere(wrong: dict[str, Any]) -> None:
    place = {"name": samples.HANDLE, "audience": samples.ALPHA, **wrong}
    share = seal_secret(
        "share",
        SHARE,
        recipient=samples.sealing_key("alpha").public,
        **{"domain": "heating", "epoch": 4, **place},
    )
    with pytest.raises(RejectedError) as refused:
        opened(samples.agent_content(blind=(agent_epoch(share, sealed=True),)))
    assert refused.value.reason == "malformed"


def test_a_share_is_no_clients_key() -> None:
    keys = sealed("share", KEYS, samples.HANDLE, samples.CLIENT)
    with pytest.raises(RejectedError):
        opened(samples.client_content(blind=(client_epoch(keys, sealed=True),)))


def test_the_comparator_opens_its_keys_and_nobody_elses() -> None:
    key = samples.sealing_key("one")
    mine = sealed("order", ORDER, "Telemetry.degrees", COMPARATOR)
    held = (OrderKey("Telemetry", "degrees", 4, "current", mine, sealed=True),)
    found = open_orders(held, "heating", key=key, audience=COMPARATOR)
    assert found == (OrderKey("Telemetry", "degrees", 4, "current", ORDER),)
    for domain, audience in (("flights", COMPARATOR), ("heating", "comparator:two")):
        with pytest.raises(DecryptionError):
            open_orders(held, domain, key=key, audience=audience)


def test_epochs_stand_once_and_one_is_current() -> None:
    with pytest.raises(InputError, match="repeat"):
        samples.agent_content(blind=(agent_epoch(SHARE), agent_epoch(SHARE, sealed=True)))
    with pytest.raises(InputError, match="two current"):
        samples.client_content(blind=(client_epoch(KEYS), replace(client_epoch(KEYS), epoch=5)))


def test_a_bundle_without_anything_new_is_as_before() -> None:
    for content in (samples.agent_content(), samples.client_content()):
        assert {"blind", "ordered"}.isdisjoint(content.to_json())


def test_who_may_read_depends_on_the_event() -> None:
    plain = ReadTerm(("a",))
    tested = ReadTerm(("b",), ({"attribute": "event.level", "op": ">", "value": 3},))
    joined = ReadTerm((), (), (("subject.carrier", "event.carrier"),))
    terms = (plain, tested, joined)
    ua = ('subject.carrier=="UA"',)

    def asked(terms: Any, **values: Any) -> tuple[tuple[str, ...], ...]:
        return read_policy(terms, values).alternatives

    assert asked(terms) == (("a",),)
    assert asked(terms, level=3) == (("a",),)
    assert asked(terms, level=4) == (("a",), ("b",))
    assert asked(terms, carrier="UA") == (("a",), ua)
    assert asked((), level=4) == asked((tested,)) == ()
    assert asked((ReadTerm(("a", "c")), plain)) == (("a",),)
    assert ReadTerm.from_json(tested.to_json()) == tested


@pytest.mark.parametrize(
    "wrong",
    [
        {"joins": [["subject.carrier"]]},
        {"event": [{"attribute": "event.level"}]},
        {"subject": ["a", "a"]},
        {"subject": "a"},
    ],
)
def test_terms_are_read_strictly(wrong: dict[str, Any]) -> None:
    with pytest.raises(DecodeError):
        ReadTerm.from_json({"subject": [], "event": [], "joins": [], **wrong})
