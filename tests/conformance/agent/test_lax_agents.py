"""The suite finds agents that leave a check out; a suite that passes everybody proves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.agent.cases import CASES, FORGED, Case
from tests.conformance.agent.lax import LAX
from tests.conformance.agent.play import Factory, Player

BY_NAME: dict[str, Case] = {f"{case.attack}: {case.name}": case for case in CASES}


@pytest.mark.parametrize("what", LAX)
def test_a_lax_agent_is_found(
    factory: Factory, begun: Player, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    player = Player(factory, tmp_path)
    player.resume(begun)
    for change in LAX[what].changes:
        monkeypatch.setattr(change.owner, change.name, change.function())
    with pytest.raises(AssertionError):
        play(player, BY_NAME[LAX[what].case])


def play(player: Player, case: Case) -> None:
    """Play a case to its end."""
    before = player.kept()
    for step in case.steps:
        player.step(step)
        player.check()
    if case in FORGED and len(case.steps) == 1:
        assert player.kept() == before
    player.end()
