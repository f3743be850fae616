"""Ten partitions, one way and half-open, while events flow; `make soak` plays a hundred."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.local.activemq import ActiveMQ
from tests.support.cut_plan import KINDS
from tests.support.cuts import Cuts

pytestmark = [pytest.mark.activemq, pytest.mark.slow]

COUNT = 10


def test_cut_off_one_way_or_both_nothing_is_lost_and_nothing_reaches_the_revoked(
    tmp_path: Path, activemq: ActiveMQ
) -> None:
    outcome = Cuts(tmp_path, activemq, "make test", count=COUNT).run()
    assert outcome.problems == []
    assert outcome.cuts.total() == COUNT
    assert {cut.partition(": ")[2] for cut in outcome.cuts} == set(KINDS)
    assert outcome.revoked >= 3
    assert min(outcome.accepted, outcome.delivered) > 20
