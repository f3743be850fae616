"""Partitions between a control plane and its servers; `make soak` plays more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cut_plan import KINDS
from tests.support.splits import SERVERS, Splits

pytestmark = [
    pytest.mark.activemq,
    pytest.mark.postgres,
    pytest.mark.redis,
    pytest.mark.spark,
    pytest.mark.slow,
]

COUNT = 5


def test_cut_off_from_its_servers_a_control_plane_loses_nothing_and_goes_on(
    tmp_path: Path,
) -> None:
    outcome = Splits(tmp_path, "make test", count=COUNT).run()
    assert outcome.problems == []
    assert outcome.kills.total() == COUNT
    assert {cut.partition(": ")[0] for cut in outcome.kills} == set(SERVERS)
    assert {cut.partition(": ")[2] for cut in outcome.kills} == set(KINDS)
    assert min(outcome.accepted, outcome.delivered) > 50
