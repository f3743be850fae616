"""What a seed decides of a play of partitions, and how leases are read from what passed."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from tests.support.cut_plan import AGENTS, CLIENTS, KINDS, LEASE_SECONDS, lanes, plan
from tests.support.stomp_tap import Given, frames, without_lease
from tests.support.tcp_proxy import Piece


def test_a_seed_gives_the_same_plan_again_and_another_another() -> None:
    assert plan("x", 10) == plan("x", 10) != plan("y", 10)


def test_ten_partitions_hold_every_kind_every_agent_and_revocations_beyond_a_lease() -> None:
    for seed in map(str, range(20)):
        cuts = plan(seed, 10)
        assert {cut.kind for cut in cuts} == set(KINDS)
        assert {cut.victim for cut in cuts} <= {*AGENTS, CLIENTS}
        assert {cut.victim for cut in cuts if cut.revokes} == set(AGENTS)
        assert {cut.kind for cut in cuts if cut.revokes} == set(KINDS)
        assert all(cut.seconds > LEASE_SECONDS for cut in cuts if cut.revokes)


def test_nobody_is_cut_off_twice_at_the_same_time() -> None:
    cuts = plan("x", 100)
    found = lanes(cuts)
    assert sorted(cut.number for lane in found for cut in lane) == list(range(100))
    for lane in found:
        assert all(one.number < other.number for one, other in pairwise(lane))
    places = Counter(victim for lane in found for victim in {cut.victim for cut in lane})
    assert set(places.values()) == {1}


def test_frames_are_found_wherever_pieces_begin_with_the_moment_of_their_beginning() -> None:
    body = b"a\0b\n\nc"
    first = b"SEND\ndestination:/queue/one\ncontent-length:%d\n\n" % len(body) + body + b"\0"
    second = b"\n\nACK\nid:1\n\n\0"
    third = b"\nSEND\ndestination:/queue/two\n\nx\0SEND\ndest"
    data = first + second + third
    for cut in range(1, len(data)):
        found = list(frames([Piece(1.0, data[:cut]), Piece(2.0, data[cut:])]))
        assert [(one.command, one.queue, one.body) for one in found] == [
            ("SEND", "one", body),
            ("ACK", "", b""),
            ("SEND", "two", b"x"),
        ]
        begins = data.index(b"/queue/two") - len(b"SEND\ndestination:")
        assert found[-1].at == (1.0 if begins < cut else 2.0)


def test_a_delivery_without_a_lease_is_found() -> None:
    given = [Given(asked=10.0, heard=11.0, seconds={"d": 10}), Given(30.0, 31.0, {"other": 10})]
    sent = [(10.5, "early"), (12.0, "right"), (20.4, "just"), (21.0, "late"), (32.0, "none")]
    found = without_lease(sent, given, "d", 0.5)
    assert [one.split("`")[1] for one in found] == ["early", "late", "none"]
