"""The agent that the suite is held against: ours, or the one that an author names."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

from tests.conformance.agent.ours import OurAgent
from tests.conformance.agent.play import Factory, Player


@pytest.fixture(scope="session")
def factory() -> Factory:
    """Makes the agent; `PORTCULLIS_AGENT_UNDER_TEST` names another as `package.module:name`."""
    named = os.environ.get("PORTCULLIS_AGENT_UNDER_TEST", "")
    if not named:
        return OurAgent
    module, _, name = named.partition(":")
    made: Factory = getattr(importlib.import_module(module), name)
    return made


@pytest.fixture(scope="session")
def begun(factory: Factory, tmp_path_factory: pytest.TempPathFactory) -> Player:
    """An agent that was brought to where every case begins, and killed there."""
    player = Player(factory, tmp_path_factory.mktemp("agent"))
    player.begin()
    return player


class Shared:
    """One agent for many cases that must change nothing; a new one after each that did."""

    def __init__(self, factory: Factory, begun: Player, folder: Path) -> None:
        self._factory, self._begun, self._folder = factory, begun, folder
        self._player: Player | None = None
        self._made = 0

    def take(self) -> Player:
        """The agent; give it back once nothing is found wrong with it."""
        player, self._player = self._player, None
        if player is None:
            self._made += 1
            player = Player(self._factory, self._folder / str(self._made))
            player.resume(self._begun)
        return player

    def give_back(self, player: Player) -> None:
        """Nothing is wrong with it."""
        self._player = player


@pytest.fixture(scope="session")
def shared(factory: Factory, begun: Player, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """For cases of one forged message."""
    return Shared(factory, begun, tmp_path_factory.mktemp("shared"))
