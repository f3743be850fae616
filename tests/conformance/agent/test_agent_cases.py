"""Every case of the table, against the agent under test."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.conformance.agent.cases import CASES, FORGED, SEQUENCES, Case
from tests.conformance.agent.conftest import Shared
from tests.conformance.agent.play import Factory, Player


def _name(case: Case) -> str:
    return f"{case.attack}: {case.name}"


def test_the_table_is_whole() -> None:
    names = Counter(map(_name, CASES))
    assert len(names) == len(CASES) >= 150
    attacks = {case.attack for case in CASES}
    assert attacks == {
        "audience", "ban", "chunks", "clock", "contexts", "deltas", "encodings", "endless data",
        "expired", "fast-forward", "floors", "freeze", "lease replay", "mix-and-match",
        "non-canonical", "notices", "restart", "rollback", "roots", "signatures", "two domains",
    }  # fmt: skip


@pytest.mark.parametrize("case", FORGED, ids=_name)
def test_nothing_comes_of_a_forged_message(shared: Shared, case: Case) -> None:
    player = shared.take()
    before = player.kept()
    for step in case.steps:
        player.step(step)
    player.check()
    assert player.kept() == before
    shared.give_back(player)


def test_after_all_forged_messages_an_honest_control_plane_is_obeyed(shared: Shared) -> None:
    shared.take().end()


@pytest.mark.parametrize("case", SEQUENCES, ids=_name)
def test_step_by_step(factory: Factory, begun: Player, tmp_path: Path, case: Case) -> None:
    player = Player(factory, tmp_path)
    player.resume(begun)
    for step in case.steps:
        player.step(step)
        player.check()
    player.end()
