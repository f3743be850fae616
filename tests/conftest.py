"""Fixtures of every test. The environment itself is set in tests/support/environment.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.cache import cache

# Fixtures live beside their helpers and are loaded from there.
pytest_plugins = [
    "tests.support.activemq",
    "tests.support.control_plane",
    "tests.support.services",
]


@pytest.fixture(autouse=True)
def _clear_cache() -> Iterator[None]:
    """Throttles count in the cache; no test may slow down the next."""
    cache.clear()
    yield
    cache.clear()
