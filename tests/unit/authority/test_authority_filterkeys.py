"""Decryption keys for filters: what policies allow is read, nothing else, and who asks is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policyengine.abe import cp_public_key
from policyengine.blind import BlindMaster, ClientKeys
from policyengine.bundles import open_secret
from policyengine.errors import DecryptionError
from policyengine.primitives import canonical
from policyengine.primitives.hpke import generate_sealing_key
from policyengine.primitives.rand import SYSTEM_RANDOM
from tasks.authority.operations import Operations
from tasks.authority.store import create_state, load_state

HANDLE = "p-ada"
KEY = generate_sealing_key()
WEST, EAST, NURSE = ('subject.ward=="west"', 'subject.ward=="east"', 'subject.role=="nurse"')
# Two activations of a role: what one may read is not opened by the other's parameters.
VARIANTS = [sorted([WEST, NURSE]), [EAST]]


class Asked:
    """An authority in which one client is enrolled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        create_state(folder, SYSTEM_RANDOM)
        self.start()
        made = self.operations.answer({"op": "create_blind_master", "domain": "care", "epoch": 1})
        self.wrapped: str = made["result"]["wrapped"]
        self.enrol(VARIANTS)

    def start(self) -> None:
        self.operations = Operations(load_state(self.folder))

    def enrol(self, variants: list[list[str]]) -> None:
        answer = self.operations.answer(
            {
                "op": "enrol_blind_clients",
                "domain": "care",
                "epoch": 1,
                "wrapped": self.wrapped,
                "clients": [client(variants=variants)],
            }
        )
        assert answer["ok"] is True

    def ask(self, reads: dict[str, Any], /, **changes: Any) -> dict[str, Any]:
        request = {
            "op": "filter_key",
            "domain": "care",
            "epoch": 1,
            "wrapped": self.wrapped,
            "revision": 7,
            "client": client(),
            "event_type": "Alarm",
            "filter": sorted({*reads, "ward"}),
            "reads": reads,
        }
        return self.operations.answer({**request, **changes})


def client(**changes: Any) -> dict[str, Any]:
    made = {"handle": HANDLE, "variants": VARIANTS, "recipient": canonical.b64(KEY.public)}
    return {**made, **changes}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return Asked(tmp_path_factory.mktemp("authority") / "state")


def opened(answer: dict[str, Any], **changes: Any) -> ClientKeys:
    assert answer["ok"] is True, answer
    place = {"domain": "care", "epoch": 1, "name": "Alarm", "audience": f"client:{HANDLE}"}
    sealed = canonical.unb64(answer["result"]["sealed"])
    return ClientKeys.from_bytes(open_secret("filter", sealed, key=KEY, **{**place, **changes}))


def test_a_key_reads_what_the_filter_names_and_no_more(asked: Asked) -> None:
    keys = opened(asked.ask({"level": [[NURSE]], "pulse": [[NURSE, WEST], [NURSE, EAST]]}))
    secret = load_state(asked.folder).unwrap("blind:care:master:1", asked.wrapped)
    master = BlindMaster.from_bytes(secret)
    # The same halves as its other keys, so that the agent's share fits; fewer tokens.
    assert keys.handle == HANDLE
    assert keys.share == master.enrol(HANDLE, [])[0].share
    assert keys.policies == cp_public_key(master.policies)
    (reader,) = keys.readers
    whole = master.enrol(HANDLE, VARIANTS)[0].readers[0]
    assert {part.label for part in reader.parts} == {part.label for part in whole.parts}
    narrow = opened(asked.ask({"level": [[NURSE]]}))
    assert len(narrow.readers[0].parts) == len(whole.parts) - 1
    both = opened(asked.ask({"level": [[NURSE], [EAST]]}))
    assert len(both.readers) == 2
    assert opened(asked.ask({}, filter=["ward"])).readers == ()


def test_a_client_that_asks_is_enrolled_without_reading_keys(asked: Asked) -> None:
    request = {
        "op": "enrol_blind_clients",
        "domain": "care",
        "epoch": 1,
        "wrapped": asked.wrapped,
        "clients": [client(reads=False)],
    }
    answer = asked.operations.answer(request)
    (sealed,) = answer["result"]["sealed"]
    place = {"domain": "care", "epoch": 1, "name": HANDLE, "audience": f"client:{HANDLE}"}
    data = open_secret("client", canonical.unb64(sealed), key=KEY, **place)
    base = ClientKeys.from_bytes(data)
    assert base.readers == ()
    # By the tokens that it was enrolled with it gets what it asks for, with the same halves.
    keys = opened(asked.ask({"level": [[NURSE]]}))
    assert (keys.share, keys.search) == (base.share, base.search)
    assert len(keys.readers) == 1
    for wrong in (None, 1, "no"):
        entries = [client(reads=wrong)]
        assert asked.operations.answer({**request, "clients": entries})["ok"] is False


def test_a_key_is_for_one_filter_of_one_client(asked: Asked) -> None:
    answer = asked.ask({"level": [[NURSE]]})
    for change in ({"name": "Bed"}, {"audience": "client:p-eve"}, {"epoch": 2}):
        with pytest.raises(DecryptionError):
            opened(answer, **change)
    other = generate_sealing_key()
    sealed = canonical.unb64(answer["result"]["sealed"])
    with pytest.raises(DecryptionError):
        open_secret(
            "client", sealed, domain="care", epoch=1, name=HANDLE, key=other, audience="client:x"
        )


@pytest.mark.parametrize(
    "ways", [[], [[EAST, NURSE]], [['subject.ward=="north"']], [[EAST, WEST], [EAST, NURSE]]]
)
def test_it_refuses_what_no_policy_allows_and_says_why(asked: Asked, ways: list[list[str]]) -> None:
    answer = asked.ask({"level": [[NURSE]], "pulse": [sorted(way) for way in ways]})
    assert answer == {
        "ok": False,
        "code": "policy",
        "error": f"no policy lets `{HANDLE}` read `pulse` of `Alarm`",
    }


@pytest.mark.parametrize(
    "variants", [[], [[WEST]], [*VARIANTS, ['subject.ward=="north"']], [sorted([EAST, WEST])]]
)
def test_it_knows_which_tokens_the_client_has(asked: Asked, variants: list[list[str]]) -> None:
    refused = asked.ask({}, filter=["ward"], client=client(variants=variants))
    assert refused["error"] == f"`{HANDLE}` was not enrolled with these tokens in epoch 1"
    stranger = asked.ask({}, filter=["ward"], client=client(handle="p-eve"))
    assert stranger["ok"] is False


@pytest.mark.parametrize(
    "changes",
    [
        {"filter": []},
        {"filter": None},
        {"filter": ["a b"]},
        {"filter": [1]},
        {"event_type": ""},
        {"event_type": None},
        {"reads": None},
        {"reads": {"other": [[NURSE]]}},
        {"reads": {"level": None}, "filter": ["level"]},
        {"reads": {"level": [None]}, "filter": ["level"]},
        {"reads": {"level": [["b", "a"]]}, "filter": ["level"]},
        {"revision": None},
        {"revision": "7"},
        {"client": {}},
        {"epoch": 2},
        {"domain": "flights"},
        {"wrapped": "!"},
        {"more": 1},
    ],
)
def test_requests_are_read_strictly(asked: Asked, changes: dict[str, Any]) -> None:
    assert asked.ask({"level": [[NURSE]]}, **changes)["ok"] is False


def test_what_was_asked_stands_in_the_journal_without_a_token(asked: Asked) -> None:
    asked.ask({"level": [[NURSE]]})
    asked.ask({"level": []})
    # Known after a new start, too.
    asked.start()
    assert asked.ask({"level": [[NURSE]]})["ok"] is True
    request = {"op": "journal_entries", "after": 0, "limit": 500}
    told = asked.operations.answer(request)["result"]["entries"]
    done, refused = [each for each in told if each["op"] == "filter_key"][-3:-1]
    assert (done["outcome"], done["handle"], done["filter"]) == ("done", HANDLE, ["level", "ward"])
    assert (done["event_type"], done["revision"]) == ("Alarm", 7)
    assert refused["outcome"] == "refused"
    assert "no policy lets" in refused["reason"]
    stored = b"".join(path.read_bytes() for path in (asked.folder / "journal").glob("*.jsonl"))
    for token in (WEST, EAST, NURSE):
        assert token.encode() not in stored
        assert canonical.dumps(token)[1:-1] not in stored
