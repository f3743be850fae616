"""`kill -9` of every kind of part of a real site; `make soak` plays fifty of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fault_plan import KINDS
from tests.support.faults import Faults

pytestmark = [
    pytest.mark.activemq,
    pytest.mark.postgres,
    pytest.mark.redis,
    pytest.mark.spark,
    pytest.mark.slow,
]

EACH = 3


def test_whatever_is_killed_nothing_is_lost_and_nothing_reaches_the_revoked(
    tmp_path: Path,
) -> None:
    outcome = Faults(tmp_path, "make test", each=EACH).run()
    assert outcome.problems == []
    assert outcome.kills == dict.fromkeys(KINDS, EACH)
    assert min(outcome.accepted, outcome.delivered) > 50
