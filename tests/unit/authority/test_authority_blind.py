"""The authority and the blind profiles: masters stay, keys leave sealed, nothing else leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policyengine.blind import AgentShare, BlindPublic, ClientKeys, Place
from policyengine.bundles import open_secret
from policyengine.ope import ComparatorKey, RangeKey, Slot
from policyengine.primitives import canonical
from policyengine.primitives.hpke import SealingKey, generate_sealing_key
from policyengine.primitives.rand import SYSTEM_RANDOM
from tasks.authority.blind import MAX_BATCH
from tasks.authority.operations import Operations
from tasks.authority.store import create_state

HANDLE = "p-ada"
READER = ['subject.ward=="west"']
KEY = generate_sealing_key()
PUBLIC = canonical.b64(KEY.public)


class Authority:
    """Asks the operations and expects an answer."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        made = self.ask("create_blind_master", domain="care", epoch=1)
        self.wrapped: str = made["wrapped"]
        self.public = BlindPublic.from_bytes(canonical.unb64(made["public"]))

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        answer = self.operations.answer({"op": op, **fields})
        assert answer["ok"] is True, answer
        return answer["result"]

    def refusal(self, op: str, **fields: Any) -> str:
        answer = self.operations.answer({"op": op, **fields})
        assert answer["ok"] is False, answer
        return str(answer["error"])

    def about(self, op: str, **changes: Any) -> dict[str, Any]:
        place = {"op": op, "domain": "care", "epoch": 1, "wrapped": self.wrapped}
        more = {
            "enrol_blind_clients": {"clients": [client()]},
            "share_blind": {"agent": "alpha", "recipient": PUBLIC, "handles": [HANDLE]},
            "seal_order_keys": {
                "audience": f"client:{HANDLE}",
                "recipient": PUBLIC,
                "scheme": "sbm2",
                "attributes": [["Alarm", "level"]],
            },
        }
        return {**place, **more[op], **changes}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(Operations(create_state(tmp_path / "state", SYSTEM_RANDOM)))


def client(**changes: Any) -> dict[str, Any]:
    return {"handle": HANDLE, "variants": [READER], "recipient": PUBLIC, **changes}


def unsealed(kind: Any, sealed: str, name: str, audience: str, key: SealingKey = KEY) -> bytes:
    data = canonical.unb64(sealed)
    return open_secret(kind, data, domain="care", epoch=1, name=name, key=key, audience=audience)


def keys_of(authority: Authority, **changes: Any) -> ClientKeys:
    request = authority.about("enrol_blind_clients", clients=[client(**changes)])
    (sealed,) = authority.ask(**request)["sealed"]
    return ClientKeys.from_bytes(unsealed("client", sealed, HANDLE, f"client:{HANDLE}"))


def test_a_clients_keys_and_its_agents_share_fit_together(authority: Authority) -> None:
    keys = keys_of(authority)
    (sealed,) = authority.ask(**authority.about("share_blind"))["sealed"]
    share = AgentShare.from_bytes(unsealed("share", sealed, HANDLE, "agent:alpha"))
    assert keys.place == share.place == authority.public.place == Place("care", 1)
    assert keys.handle == share.handle == HANDLE
    group = authority.public.group
    # z1 + z2 = z: the two halves make the exponent of the second lock, and neither does alone.
    both = (keys.share + share.share) % group.order
    assert group.encode(group.generated(both)) == authority.public.lock
    assert group.encode(group.generated(keys.share)) != authority.public.lock
    assert len(keys.readers) == 1


def test_asked_again_it_gives_the_same_keys_in_another_seal(authority: Authority) -> None:
    request = authority.about("enrol_blind_clients")
    first, second = (authority.ask(**request)["sealed"][0] for _ in range(2))
    assert first != second
    one, two = (unsealed("client", each, HANDLE, f"client:{HANDLE}") for each in (first, second))
    assert one == two
    other = keys_of(authority, variants=[['subject.ward=="east"']])
    assert other.to_bytes() != one
    assert other.share == ClientKeys.from_bytes(one).share


def test_keys_of_order_are_one_an_attribute_for_everybody(authority: Authority) -> None:
    attributes = [["Alarm", "level"], ["Alarm", "pulse"]]
    found = {}
    for audience in (f"client:{HANDLE}", "comparator:one"):
        request = authority.about("seal_order_keys", audience=audience, attributes=attributes)
        found[audience] = [
            unsealed("order", sealed, ".".join(pair), audience)
            for sealed, pair in zip(authority.ask(**request)["sealed"], attributes, strict=True)
        ]
    client_keys = [RangeKey.from_bytes(each) for each in found[f"client:{HANDLE}"]]
    comparator_keys = [ComparatorKey.from_bytes(each) for each in found["comparator:one"]]
    assert [key.comparator_key() for key in client_keys] == comparator_keys
    assert [key.slot for key in client_keys] == [Slot("care", *pair, 1) for pair in attributes]
    assert len({key.secret for key in (*client_keys, *comparator_keys)}) == 4
    again = Authority(authority.operations)
    (sealed,) = again.ask(**again.about("seal_order_keys"))["sealed"]
    other = RangeKey.from_bytes(unsealed("order", sealed, "Alarm.level", f"client:{HANDLE}"))
    assert other.secret not in {key.secret for key in client_keys}
    first = authority.ask(**authority.about("seal_order_keys", scheme="sbm1"))["sealed"][0]
    plain = RangeKey.from_bytes(unsealed("order", first, "Alarm.level", f"client:{HANDLE}"))
    assert plain.scheme == "sbm1"
    assert plain.secret != client_keys[0].secret


def test_the_master_is_wrapped_and_opens_as_nothing_else(authority: Authority) -> None:
    name = "blind:care:master:1"
    for op, fields in (
        ("unwrap", {"key_id": name, "wrapped": authority.wrapped}),
        ("create_key", {"key_id": name}),
        ("wrap_for", {
            "key_id": name,
            "wrapped": authority.wrapped,
            "group": "key:care",
            "epoch": 1,
            "recipient": PUBLIC,
            "audience": "agent:alpha",
        }),
    ):  # fmt: skip
        assert authority.refusal(op, **fields) == "not a key id"
    key = authority.ask("create_key", key_id="tag:care:a:1")["wrapped"]
    for changes in ({"domain": "flights"}, {"epoch": 2}, {"wrapped": key}, {"wrapped": "!"}):
        refused = authority.refusal(**authority.about("share_blind", **changes))
        assert refused == "the request does not check out"


@pytest.mark.parametrize("epoch", [0, -1, True, "1", 1.0, 10**9, None])
@pytest.mark.parametrize("op", ["create_blind_master", "share_blind"])
def test_an_epoch_is_a_number(authority: Authority, op: str, epoch: Any) -> None:
    request = {"op": op, "domain": "care", "epoch": epoch}
    if op == "share_blind":
        request = authority.about(op, epoch=epoch)
    assert authority.refusal(**request) == "not the number of an epoch"


@pytest.mark.parametrize("domain", ["", "Care", "a:b", "a\n", "a" * 65, 7, None, ["care"]])
def test_a_domain_has_a_name(authority: Authority, domain: Any) -> None:
    refused = authority.refusal("create_blind_master", domain=domain, epoch=1)
    assert refused == "not the name of a domain"


@pytest.mark.parametrize(
    "entry",
    [
        None,
        {},
        client(more=1),
        client(handle=1),
        client(handle="P-1"),
        client(handle="p-1\n"),
        client(variants=None),
        client(variants=[None]),
        client(variants=[[1]]),
        client(variants=[[""]]),
        client(variants=[["b", "a"]]),
        client(variants=[["a", "a"]]),
        client(variants=[["a"]] * 65),
        client(variants=[[f"{number:05}" for number in range(5000)]]),
        client(recipient=None),
        client(recipient="!"),
        client(recipient=canonical.b64(bytes(7))),
    ],
)
def test_clients_are_read_strictly(authority: Authority, entry: Any) -> None:
    request = authority.about("enrol_blind_clients", clients=[client(), entry])
    assert authority.refusal(**request)


@pytest.mark.parametrize(
    ("op", "changes"),
    [
        ("enrol_blind_clients", {"clients": None}),
        ("enrol_blind_clients", {"clients": [client()] * (MAX_BATCH + 1)}),
        ("enrol_blind_clients", {"audience": "client:p-eve"}),
        ("share_blind", {"agent": "agent:alpha"}),
        ("share_blind", {"agent": None}),
        ("share_blind", {"recipient": "!"}),
        ("share_blind", {"handles": HANDLE}),
        ("share_blind", {"handles": ["P"]}),
        ("share_blind", {"handles": [HANDLE] * (MAX_BATCH + 1)}),
        ("share_blind", {"wrapped": 7}),
        ("seal_order_keys", {"audience": "agent:alpha"}),
        ("seal_order_keys", {"audience": "client:*"}),
        ("seal_order_keys", {"audience": None}),
        ("seal_order_keys", {"recipient": "!"}),
        ("seal_order_keys", {"scheme": "sbm3"}),
        ("seal_order_keys", {"scheme": None}),
        ("seal_order_keys", {"audience": "comparator:one", "scheme": "sbm1"}),
        ("seal_order_keys", {"attributes": None}),
        ("seal_order_keys", {"attributes": ["Alarm.level"]}),
        ("seal_order_keys", {"attributes": [["Alarm"]]}),
        ("seal_order_keys", {"attributes": [["Alarm", "a.b"]]}),
        ("seal_order_keys", {"attributes": [["Alarm", 1]]}),
        ("seal_order_keys", {"attributes": [["Alarm", "level"]] * (MAX_BATCH + 1)}),
    ],
)
def test_requests_are_read_strictly(authority: Authority, op: str, changes: Any) -> None:
    assert authority.refusal(**authority.about(op, **changes))


def test_no_agent_gets_a_key_of_order(authority: Authority) -> None:
    refused = authority.refusal(**authority.about("seal_order_keys", audience="agent:alpha"))
    assert refused == "keys of this kind go to clients and comparators only"
