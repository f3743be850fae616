"""What a seed has killed and cut off: the same each time, and as much of each as was asked for."""

from __future__ import annotations

from collections import Counter

from tests.support import fault_plan, splits
from tests.support.cut_plan import KINDS


def test_kills_are_drawn_from_the_seed_so_many_of_each() -> None:
    found = fault_plan.lanes("a seed", 3)
    assert found == fault_plan.lanes("a seed", 3)
    assert found != fault_plan.lanes("another", 3)
    counted = Counter(strike.kind for lane in found for strike in lane)
    assert counted == dict.fromkeys(set(fault_plan.KINDS) - {fault_plan.DRIVER}, 3)


def test_partitions_are_drawn_from_the_seed_of_every_kind() -> None:
    found = splits.lanes("a seed", 12)
    assert found == splits.lanes("a seed", 12)
    cuts = [split for lane in found for split in lane]
    assert {(cut.server, cut.kind) for cut in cuts} == {
        (server, kind) for server in splits.SERVERS for kind in KINDS
    }
    assert all(cut.reset for cut in cuts if cut.kind == "half-open" and cut.server != "activemq")
