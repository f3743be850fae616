"""`kill -9` of agents, brokers and clients under load; `make soak` does a hundred of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.crashes import Campaign

pytestmark = [pytest.mark.activemq, pytest.mark.slow]

EACH = 5


def test_killed_at_random_moments_nothing_is_lost_and_nothing_wrong_delivered(
    tmp_path: Path,
) -> None:
    outcome = Campaign(tmp_path, "make test").run(agents=EACH, brokers=EACH, clients=EACH)
    assert outcome.problems == []
    assert outcome.kills == {"agent": EACH, "broker": EACH, "client": EACH}
    assert min(outcome.delivered.values()) > 10
