"""The control side over an in-memory broker: bundles that say what changed, or come in chunks."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from policyengine.bundles import SealedBundle, build_bundle, difference
from policyengine.primitives.signatures import sign
from tests.support.control_rig import ALPHA, ORGANISATION, Rig
from tests.support.memory_broker import MemoryBroker


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, MemoryBroker())


def delta_between(before: Any, after: Any, revision: int, **members: Any) -> SealedBundle:
    """A bundle that says what changed, or the whole of `after` where there is no before."""
    delta = None if before is None else difference(before, after)
    now = int(time.time())
    return build_bundle(
        **{
            "domain": "flights", "audience": ALPHA, "revision": revision, "previous": "",
            "issued": now, "expires": now + 3600, "root_version": 1, "content": after,
            "sign": partial(sign, ORGANISATION.authority.policy), "delta": delta,
            "recipient": ORGANISATION.public_keys(ALPHA).sealing.public, **members,
        }
    )  # fmt: skip


CONTENT = ORGANISATION.agent_content("alpha")
LATER = replace(CONTENT, lease_seconds=CONTENT.lease_seconds + 1, clients=CONTENT.clients[1:])


def test_a_delta_is_applied_kept_whole_and_survives_a_restart(rig: Rig, tmp_path: Path) -> None:
    first = delta_between(None, CONTENT, 1)
    second = delta_between(CONTENT, LATER, 2, previous=first.digest)
    third = delta_between(LATER, CONTENT, 3, previous=second.digest)
    for sealed in (first, second):
        rig.give("bundle", sealed.message)
    assert rig.applied.revisions == [1, 2]
    again = Rig(tmp_path, MemoryBroker())
    assert again.applied.revisions == [2]
    again.give("bundle", third.message)
    assert again.applied.revisions == [2, 3]
    assert again.told()[-1] == ("bundle", 3, "applied", "")
    assert Rig(tmp_path, MemoryBroker()).applied.revisions == [3]


def test_a_delta_whose_base_is_not_held_is_refused_and_a_whole_mends_it(
    rig: Rig, tmp_path: Path
) -> None:
    first = delta_between(None, CONTENT, 1)
    second = delta_between(CONTENT, LATER, 2, previous=first.digest)
    third = delta_between(LATER, CONTENT, 3, previous=second.digest)
    rig.give("bundle", second.message)
    rig.give("bundle", first.message)
    rig.give("bundle", third.message)
    assert rig.applied.revisions == [1]
    assert [one for one in rig.told() if one[2] == "rejected"] == [
        ("bundle", 2, "rejected", "previous"),
        ("bundle", 3, "rejected", "previous"),
    ]
    # its file is lost, or somebody put another in its place: the state alone is not enough
    kept = tmp_path / "bundles" / "flights.bundle"
    for data in (None, b"rubbish", delta_between(None, LATER, 9).message):
        kept.unlink(missing_ok=True) if data is None else kept.write_bytes(data)
        rig.give("bundle", second.message)
        assert rig.told()[-1] == ("bundle", 2, "rejected", "previous")
    rig.give("bundle", delta_between(None, LATER, 3).message)
    assert rig.applied.revisions == [1, 3]


def test_what_was_lost_from_disk_may_come_as_another_whole_of_its_revision(
    rig: Rig, tmp_path: Path
) -> None:
    rig.give("bundle", delta_between(None, CONTENT, 4).message)
    (tmp_path / "bundles" / "flights.bundle").write_bytes(b"damaged")
    again = Rig(tmp_path, MemoryBroker())
    assert again.applied.revisions == []
    for revision, reason in ((3, "rollback"),):
        again.give("bundle", delta_between(None, CONTENT, revision).message)
        assert again.told()[-1] == ("bundle", revision, "rejected", reason)
    now = int(time.time())
    again.clock.time = now
    again.give("bundle", delta_between(None, CONTENT, 4, expires=now - 5).message)
    assert again.told()[-1] == ("bundle", 4, "rejected", "expired")
    again.give("bundle", delta_between(None, LATER, 4).message)
    assert again.applied.revisions == [4]
    again.give("bundle", delta_between(None, CONTENT, 4).message)
    assert again.told()[-1] == ("bundle", 4, "rejected", "replay")


def in_chunks(content: Any, revision: int, **members: Any) -> SealedBundle:
    sealed = delta_between(None, content, revision, limit=16_400, chunk=3_000, **members)
    assert len(sealed.chunks) > 2
    return sealed


def test_a_bundle_in_chunks_is_applied_once_all_are_there(rig: Rig, tmp_path: Path) -> None:
    sealed = in_chunks(CONTENT, 1)
    rig.give("chunk", sealed.chunks[0])
    assert rig.link.rejections[-1].reason == "previous"
    rig.give("bundle", sealed.message)
    for chunk in sealed.chunks[1:]:
        rig.give("chunk", chunk)
    assert rig.applied.revisions == []
    # sent again as a whole: what is there counts
    rig.give("bundle", sealed.message)
    rig.give("chunk", sealed.chunks[0])
    assert rig.applied.revisions == [1]
    assert [one[2] for one in rig.told()] == ["received", "received", "applied"]
    assert Rig(tmp_path, MemoryBroker()).applied.revisions == [1]
    later = delta_between(CONTENT, LATER, 2, previous=sealed.digest)
    rig.give("bundle", later.message)
    assert rig.applied.revisions == [1, 2]


def test_chunks_that_were_gathered_are_asked_for_again_after_a_restart(
    rig: Rig, tmp_path: Path
) -> None:
    sealed = in_chunks(CONTENT, 1)
    rig.give("bundle", sealed.message)
    for chunk in sealed.chunks[1:]:
        rig.give("chunk", chunk)
    again = Rig(tmp_path, MemoryBroker())
    again.give("chunk", sealed.chunks[0])
    assert again.applied.revisions == []
    for kind, data in (("bundle", sealed.message), *(("chunk", one) for one in sealed.chunks)):
        again.give(kind, data)
    assert again.applied.revisions == [1]


def test_only_the_newest_bundle_in_chunks_is_gathered(rig: Rig) -> None:
    older, newer = in_chunks(CONTENT, 1), in_chunks(LATER, 2)
    rig.give("bundle", older.message)
    rig.give("chunk", older.chunks[0])
    rig.give("bundle", newer.message)
    rig.give("bundle", older.message)
    assert rig.told()[-1] == ("bundle", 1, "rejected", "rollback")
    for chunk in (*older.chunks, *newer.chunks[:-1]):
        rig.give("chunk", chunk)
    # another one was quicker; what is gathered then is too old
    rig.give("bundle", delta_between(None, CONTENT, 3).message)
    rig.give("chunk", newer.chunks[-1])
    assert rig.applied.revisions == [3]


def test_a_useless_bundle_in_chunks_is_refused_and_forgotten(rig: Rig) -> None:
    sealed = in_chunks(CONTENT, 1)
    rig.applied.useless = True
    for kind, data in (("bundle", sealed.message), *(("chunk", one) for one in sealed.chunks)):
        rig.give(kind, data)
    assert rig.told()[-1] == ("bundle", 1, "rejected", "malformed")
    rig.give("chunk", sealed.chunks[0])
    assert rig.link.rejections[-1].reason == "previous"


def test_a_full_disk_at_the_last_chunk_loses_nothing(rig: Rig) -> None:
    sealed = in_chunks(CONTENT, 1)
    rig.give("bundle", sealed.message)
    rig.states.full = True
    for chunk in sealed.chunks:
        rig.give("chunk", chunk)
    assert rig.applied.revisions == []
    rig.states.full = False
    rig.give("chunk", sealed.chunks[-1])
    assert rig.applied.revisions == [1]
    assert (rig.link.not_kept, list(rig.link.rejections)) == (0, [])
