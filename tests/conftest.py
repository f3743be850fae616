"""Fixtures of every test. The environment itself is set in tests/support/environment.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import pytest
from django.core.cache import cache
from xdist.scheduler import LoadScopeScheduling

# Fixtures live beside their helpers and are loaded from there.
pytest_plugins = [
    "tests.support.activemq",
    "tests.support.control_plane",
    "tests.support.services",
    "tests.support.migrated",
]


SHARED = {
    "test_demo": "stack",
    "test_run": "stack",
    "test_backup_databases": "postgresql",
    "test_control_plane_postgres": "postgresql",
    "test_postgres": "postgresql",
}
FIRST = (
    "spark",
    "test_faults",
    "stack",
    "postgresql",
    "test_distribution_revocation",
    "test_case_studies",
    "e2e",
    "test_api_schemathesis",
    "test_agent_activemq",
    "test_migrations",
    "test_crashes",
    "test_scenarios_activemq",
    "test_api_matrix",
    "test_audit_migration",
    "test_api_access",
    "test_api_queries",
    "test_celery_filesystem",
    "test_api_junk",
)
"""What takes longest: begun last, it would keep one worker busy while the other has nothing."""


def _group(path: PurePath) -> str:
    """What shares something costly runs one after the other: a stack, a Spark session, a site."""
    folder = path.parent.name
    own = folder if folder in {"e2e", "spark"} else path.stem
    return SHARED.get(path.stem, own)


class Groups(LoadScopeScheduling):
    """Gives a worker a whole group at a time: one waits for real parts while the other computes.

    xdist's own way of grouping adds to the names of tests, which this pytest does not let it.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _group(PurePath(nodeid.partition("::")[0]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups | None:
    return Groups(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Within a group the order stays: what leaves the database as it was comes first."""
    places = {group: place for place, group in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(_group(item.path), len(FIRST)))


@pytest.fixture(autouse=True)
def _clear_cache() -> Iterator[None]:
    """Throttles count in the cache; no test may slow down the next."""
    cache.clear()
    yield
    cache.clear()
