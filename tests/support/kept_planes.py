"""Control planes that are costly to bring up, made once and put back for every later test."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from django.core.cache import cache

from tests.support.audiences import Audience, Plane, resume_journal, state_of
from tests.support.kept_rows import KeptRows


@dataclass
class _Kept:
    """A plane at rest: rows, what every audience holds, what the authority remembers."""

    rows: KeptRows
    audiences: dict[str, Audience]
    state: Path


class PlaneKeeper:
    """Keeps planes by name for as long as their authority runs.

    Args:
        authority: the socket of the authority.
        folders: where its state is copied to.
    """

    def __init__(self, authority: Path, folders: pytest.TempPathFactory) -> None:
        self._authority, self._folders = authority, folders
        self._kept: dict[str, _Kept] = {}

    def bring_up(self, name: str, plane: Plane, make: Callable[[], object]) -> None:
        """Do what brings up a plane that is empty, or put back what came of it the first time.

        The first test gets what later ones get: copies, and nothing of how it was made.

        Args:
            name: of what is brought up; the same name does the same.
            plane: with nobody in it.
            make: has nothing on its way when it is done.
        """
        if name in self._kept:
            self._put_back(self._kept[name])
        else:
            self._kept[name] = self._make(plane, make)
        plane.audiences = _copies(self._kept[name].audiences)
        plane.queues.clear()
        plane.sent.clear()
        cache.clear()

    def _make(self, plane: Plane, make: Callable[[], object]) -> _Kept:
        rows = KeptRows()
        rows.watch(make)
        assert not any(plane.queues.values())
        state = self._folders.mktemp("kept") / "state"
        shutil.copytree(state_of(self._authority), state)
        return _Kept(rows, _copies(plane.audiences), state)

    def _put_back(self, kept: _Kept) -> None:
        resume_journal(self._authority, kept.state, self._folders.mktemp("journal"))
        kept.rows.put_back()


def _copies(audiences: dict[str, Audience]) -> dict[str, Audience]:
    return {address: _copy(audience) for address, audience in audiences.items()}


def _copy(audience: Audience) -> Audience:
    """Another one that holds the same; what is held never changes, only what holds it."""
    made = replace(
        audience,
        bundles=dict(audience.bundles),
        leases=list(audience.leases),
        refusals=list(audience.refusals),
        forms=list(audience.forms),
        sealed=dict(audience.sealed),
        gathering=dict(audience.gathering),
    )
    made.state = audience.state
    return made


@pytest.fixture(scope="session")
def planes(live_authority: Path, tmp_path_factory: pytest.TempPathFactory) -> PlaneKeeper:
    """What was brought up in this process."""
    return PlaneKeeper(live_authority, tmp_path_factory)
