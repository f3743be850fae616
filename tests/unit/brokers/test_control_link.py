"""The control side over an in-memory broker: disk first, then memory, then the word."""

from __future__ import annotations

import json
import logging
import time
from functools import partial
from pathlib import Path

import pytest

from brokers.adapters.files import StateError
from policyengine.bundles import (
    FilterAnswer,
    LeaseRequest,
    control_queue,
    decode_request,
    encode_control,
    seal_filter_answer,
)
from policyengine.primitives.signatures import sign
from tests.support.control_rig import ALPHA, ORGANISATION, Rig
from tests.support.data_plane import ControlPlane
from tests.support.memory_broker import MemoryBroker, MemoryTransport


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, MemoryBroker())


def test_a_bundle_is_kept_applied_and_acknowledged(rig: Rig, tmp_path: Path) -> None:
    digest = rig.bundle(1)
    assert rig.applied.revisions == [1]
    assert rig.told() == [("bundle", 1, "received", ""), ("bundle", 1, "applied", "")]
    held = rig.requests("ack")[-1].held["flights"]
    assert (held["revision"], held["digest"], held["epochs"]) == (1, digest, {"1": "current"})
    kept = (tmp_path / "bundles" / "flights.bundle").read_bytes()
    assert b"carrier" not in kept  # sealed as it came
    assert rig.broker.bodies(control_queue(ALPHA)) == []


def test_after_a_restart_the_disk_is_verified_and_in_force_without_a_broker(
    rig: Rig, tmp_path: Path
) -> None:
    rig.bundle(1)
    rig.bundle(2)
    again = Rig(tmp_path, MemoryBroker(up=False))
    assert again.applied.revisions == [2]
    assert again.link.standing("flights") == "no-lease"


def test_a_damaged_bundle_is_left_out_and_asked_for_again(rig: Rig, tmp_path: Path) -> None:
    digest = rig.bundle(1)
    path = tmp_path / "bundles" / "flights.bundle"
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    again = Rig(tmp_path, MemoryBroker())
    assert again.applied.revisions == []
    assert [one.reason for one in again.link.rejections] == ["malformed"]
    again.link.step(0)
    (asked,) = again.requests("lease")
    assert asked.held["flights"]["revision"] == 0
    # The same bundle again is no replay then; an older one still is.
    again.give("bundle", good)
    assert again.applied.revisions == [1]
    assert again.link.view.state.revisions["flights"].digest == digest


def test_a_damaged_state_stops_the_start(rig: Rig, tmp_path: Path) -> None:
    rig.bundle(1)
    (tmp_path / "trusted.json").write_text("{")
    with pytest.raises(StateError, match="damaged"):
        Rig(tmp_path, MemoryBroker())


def test_refused_bundles_are_told_and_remembered(rig: Rig) -> None:
    rig.bundle(2)
    rig.clock.time = time.time()  # by the wall clock, before the first lease
    for revision, options, reason in [
        (1, {}, "rollback"),
        (3, {"expires_in": -3600}, "expired"),
        (3, {"previous": "f" * 64}, "previous"),
    ]:
        rig.bundle(revision, **options)
        assert rig.told()[-1] == ("bundle", revision, "rejected", reason)
    rig.give("bundle", b"rubbish")
    assert rig.told()[-1] == ("bundle", 0, "rejected", "malformed")
    rig.applied.useless = True
    rig.bundle(9)
    assert rig.told()[-1] == ("bundle", 9, "rejected", "malformed")
    assert rig.applied.revisions == [2]
    assert rig.link.view.state.revisions["flights"].revision == 2
    reasons = [one.reason for one in rig.link.rejections]
    assert reasons == ["rollback", "expired", "previous", "malformed", "malformed"]


def test_the_same_bundle_again_is_acknowledged_again(rig: Rig) -> None:
    sealed = ORGANISATION.bundle(ALPHA, 1)
    rig.give("bundle", sealed.message)
    rig.give("bundle", sealed.message)
    assert rig.applied.revisions == [1]
    assert rig.told()[-1] == ("bundle", 1, "applied", "")
    assert not rig.link.rejections


def test_what_is_not_on_disk_is_not_in_force_and_not_acknowledged(rig: Rig) -> None:
    rig.states.full = True
    rig.bundle(1)
    assert rig.applied.revisions == []
    assert ("bundle", 1, "applied", "") not in rig.told()
    rig.transport.unsubscribe(control_queue(ALPHA))
    assert len(rig.broker.bodies(control_queue(ALPHA))) == 1


def test_what_could_not_be_kept_is_tried_again_once_there_is_room(rig: Rig) -> None:
    rig.states.full = True
    rig.bundle(1)
    assert (rig.link.not_kept, rig.disk_failures) == (1, 1)
    rig.link.step(0)
    assert rig.disk_failures == 1  # not at once
    rig.clock.time += 2
    rig.link.step(0)
    assert (rig.link.not_kept, rig.disk_failures) == (1, 2)
    rig.states.full = False
    rig.clock.time += 2
    rig.link.step(0)
    assert rig.applied.revisions == [1]
    assert rig.told()[-1] == ("bundle", 1, "applied", "")
    assert rig.link.not_kept == 0
    rig.transport.unsubscribe(control_queue(ALPHA))
    assert rig.broker.bodies(control_queue(ALPHA)) == []


def test_messages_that_come_again_while_the_disk_is_full_do_not_shut_leases_out(rig: Rig) -> None:
    sealed = ORGANISATION.bundle(ALPHA, 1)
    rig.states.full = True
    for _ in range(30):  # more than may be open at once
        rig.give("bundle", sealed.message)
        rig.clock.time += 30
        rig.link.step(0)
    assert rig.link.not_kept == 1
    rig.transport.unsubscribe(control_queue(ALPHA))
    assert len(rig.broker.bodies(control_queue(ALPHA))) == 1  # and the broker has it still
    rig.link.listen()
    rig.states.full = False
    rig.link.step(0)
    assert (rig.applied.revisions, rig.link.not_kept) == ([1], 0)


def test_applied_is_only_said_when_earlier_work_is_over(rig: Rig) -> None:
    rig.applied.busy = True
    rig.bundle(1)
    assert rig.applied.revisions == [1]
    assert rig.told() == [("bundle", 1, "received", "")]
    rig.applied.busy = False
    rig.link.step(0)
    assert rig.told()[-1] == ("bundle", 1, "applied", "")


def test_the_same_bundle_again_is_not_said_to_be_applied_before_earlier_work_is_over(
    rig: Rig,
) -> None:
    rig.applied.busy = True
    rig.bundle(1)
    second = ORGANISATION.bundle(ALPHA, 2)
    for _ in range(2):
        rig.give("bundle", second.message)
    assert {told[2] for told in rig.told()} == {"received"}
    rig.applied.busy = False
    rig.link.step(0)
    assert [told[1] for told in rig.told() if told[2] == "applied"] == [1, 2, 2]


def test_what_it_says_that_it_holds_never_becomes_older(rig: Rig) -> None:
    for revision in (1, 2, 3):
        sealed = ORGANISATION.bundle(ALPHA, revision)
        rig.broker.put(control_queue(ALPHA), encode_control("bundle", "flights", sealed.message))
    rig.link.step(0)  # in which it asks for its first lease as well
    said = [json.loads(decode_request(body).body) for body in rig.broker.bodies("pc.requests")]
    held = [one["held"].get("flights", {"revision": 0})["revision"] for one in said]
    assert (held, len(rig.requests("lease"))) == (sorted(held), 1)
    assert held[-1] == 3


def test_acknowledgements_wait_for_the_broker(rig: Rig) -> None:
    rig.bundle(1)
    before = len(rig.told())
    rig.applied.busy = True
    rig.bundle(2)
    rig.broker.up = False
    rig.applied.busy = False
    rig.link.step(0)
    rig.broker.up = True
    rig.link.step(0)
    assert rig.told()[before:] == [("bundle", 2, "received", ""), ("bundle", 2, "applied", "")]


def _plane(rig: Rig) -> ControlPlane:
    # Not served by its thread: only what it sends is used. Made before anything is said, since
    # until it stops the thread takes and answers that.
    plane = ControlPlane([ORGANISATION], MemoryTransport(rig.broker))
    plane._stopping.set()
    plane._thread.join()
    return plane


def test_a_notice_is_kept_and_told(rig: Rig, tmp_path: Path) -> None:
    plane = _plane(rig)
    rig.bundle(1)
    plane.notice(ORGANISATION, ALPHA, ("p-ua",))
    rig.link.step(0)
    assert rig.applied.denied == {"p-ua"}
    assert rig.told()[-2:] == [("notice", 1, "received", ""), ("notice", 1, "applied", "")]
    again = Rig(tmp_path, MemoryBroker())
    assert again.link.view.state.denied == {"flights": frozenset({"p-ua"})}


def _answer(rig: Rig, plane: ControlPlane, asked: LeaseRequest) -> None:
    plane._lease(ALPHA, asked.nonce, rig.keys)
    rig.link.step(0)


def test_leases_are_asked_for_and_end(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    plane = _plane(rig)
    rig.bundle(1)
    rig.link.step(0)
    (asked,) = rig.requests("lease")
    assert rig.link.standing("flights") == "no-lease"
    _answer(rig, plane, asked)
    assert rig.link.standing("flights") == "serving"
    plane._lease(ALPHA, asked.nonce, rig.keys)  # replayed
    rig.link.step(0)
    assert [one.reason for one in rig.link.rejections] == ["replay"]
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
    rig.clock.time += 4.9
    rig.link.step(0)
    assert len(rig.requests("lease")) == 1
    rig.clock.time += 0.2
    rig.link.step(0)
    assert len(rig.requests("lease")) == 2
    assert len({one.nonce for one in rig.requests("lease")}) == 2
    rig.clock.time += 25
    assert rig.link.standing("flights") == "lease-over"
    assert rig.link.standing("heating") == "no-policy"


def test_a_new_connection_asks_at_once(rig: Rig) -> None:
    rig.link.step(0)
    rig.broker.up = False
    rig.link.step(0)
    rig.broker.up = True
    rig.link.step(0)
    assert len(rig.requests("lease")) == 2


def test_a_lease_for_somebody_else_or_by_somebody_else_is_refused(rig: Rig) -> None:
    plane = _plane(rig)
    rig.link.step(0)
    (asked,) = rig.requests("lease")
    plane._organisations[0].authority.lease, real = (
        plane._organisations[0].authority.notice,
        plane._organisations[0].authority.lease,
    )
    _answer(rig, plane, asked)
    plane._organisations[0].authority.lease = real
    assert [one.reason for one in rig.link.rejections] == ["signature"]
    assert rig.link.view.book.leases == {}


def test_rubbish_on_the_control_queue_is_put_away(rig: Rig) -> None:
    rig.broker.put(control_queue(ALPHA), b"rubbish")
    rig.link.step(0)
    assert [one.what for one in rig.link.rejections] == ["message"]
    rig.transport.unsubscribe(control_queue(ALPHA))
    assert rig.broker.bodies(control_queue(ALPHA)) == []


def test_an_agent_takes_no_answers_about_filters(rig: Rig) -> None:
    place = {"domain": "flights", "request": "1" * 32, "type": "Flight", "attributes": ("delay",)}
    answer = FilterAnswer(audience=ALPHA, **place, at=1, reason="no policy lets it")
    sealed = seal_filter_answer(
        answer,
        sign=partial(sign, ORGANISATION.authority.policy),
        recipient=rig.keys.sealing.public,
    )
    forged = seal_filter_answer(
        answer,
        sign=partial(sign, ORGANISATION.authority.lease),
        recipient=rig.keys.sealing.public,
    )
    rig.give("filter-key", sealed)
    rig.give("filter-key", forged)
    rig.give("filter-key", b"nonsense")
    rig.give("filter-key", sealed, domain="heating")
    reasons = [rejection.reason for rejection in rig.link.rejections]
    assert reasons == ["audience", "signature", "malformed", "audience"]
