"""Real ActiveMQ brokers for tests: one, or a pair with an overlay each, for the whole session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.local.activemq import ActiveMQ, write_brokers_file


@pytest.fixture(scope="session")
def activemq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActiveMQ]:
    """The broker of overlay `a`. Tests share it: use queue names of your own."""
    broker = ActiveMQ(tmp_path_factory.mktemp("activemq-a"), name="a")
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def activemq_pair(
    activemq: ActiveMQ, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, ActiveMQ]]:
    """The brokers of overlays `a` and `b`."""
    other = ActiveMQ(tmp_path_factory.mktemp("activemq-b"), name="b")
    other.start()
    yield {"a": activemq, "b": other}
    other.stop()


@pytest.fixture
def brokers_file(activemq_pair: dict[str, ActiveMQ], tmp_path: Path) -> Callable[[str], Path]:
    """A function: account name -> a brokers file for the pair, mode 0600."""

    def write(account: str) -> Path:
        entries = {name: broker.entry(account) for name, broker in activemq_pair.items()}
        return write_brokers_file(tmp_path / f"brokers-{account}.json", entries)

    return write
