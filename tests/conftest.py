"""Fixtures of every test. The environment itself is set in tests/support/environment.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.cache import cache

# Fixtures live beside their helpers and are loaded from there.
pytest_plugins = [
    "tests.support.activemq",
    "tests.support.control_plane",
    "tests.support.migrated",
    "tests.support.services",
]


STACK = {"test_demo", "test_run"}


def _group(item: pytest.Item) -> str:
    """What shares something costly runs one after the other: a stack, a Spark session, a site."""
    if item.path.stem in STACK:
        return "stack"
    folder = item.path.parent.name
    return folder if folder in {"e2e", "spark"} else item.path.stem


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` runs two groups at a time: one waits for real parts while the other computes."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


@pytest.fixture(autouse=True)
def _clear_cache() -> Iterator[None]:
    """Throttles count in the cache; no test may slow down the next."""
    cache.clear()
    yield
    cache.clear()
