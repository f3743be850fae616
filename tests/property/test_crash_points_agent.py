"""An agent dies at every point between a message and its acknowledgement, and nothing is lost.

Each point is passed in a play without a death first, which also says what has to come out. Then
there are plays that die at one point of every step of the story; two ways to die.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.dying_agent import Ending, Play, story
from tests.support.fragile_disk import Deaths

STORY = story()
# kind of death -> (does the machine lose its power, dies again after so many further points)
WAYS = {"kill": (False, 0), "power, and again": (True, 3)}


def play(folder: Path, deaths: Deaths, *, power: bool = False, lies: bool = False) -> Ending:
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        return Play(folder, patch, deaths, power=power, steps=STORY, lies=lies).run()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ending, list[str]]:
    """What comes out without a death, and the points that are passed."""
    deaths = Deaths()
    ending = play(tmp_path_factory.mktemp("undisturbed") / "agent", deaths)
    assert ending.problems == []
    assert ending.deaths == []
    return ending, deaths.passed


def rounds(passed: list[str]) -> list[list[str]]:
    """The first points of every step, the second ones, and so on."""
    steps: dict[str, list[str]] = defaultdict(list)
    for name in passed:
        steps[name.partition(":")[0]].append(name)
    longest = max(map(len, steps.values()))
    return [[names[n] for names in steps.values() if n < len(names)] for n in range(longest)]


def test_the_points_are_those_that_matter(undisturbed: tuple[Ending, list[str]]) -> None:
    _, passed = undisturbed
    assert len(set(passed)) == len(passed) > 150
    for step in ("whole", "delta", "parts", "whole under the next root"):
        for what in (
            "received", "verified", "create flights.bundle", "write flights.bundle",
            "in the middle of writing flights.bundle", "fsync flights.bundle",
            "rename to flights.bundle", "fsync the folder of flights.bundle",
            "create trusted.json", "rename to trusted.json", "fsync the folder of trusted.json",
            "swap in", "swapped in", "acknowledge", "acknowledge: the broker has it",
            "take it off the queue", "it is off the queue",
        ):  # fmt: skip
            assert f"{step}: {what}" in passed
    for what in ("deny", "hold back", "fsync trusted.json", "acknowledge"):
        assert f"notice: {what}" in passed
    for what in (
        "fsync roots.json",
        "rename to trusted.json",
        "fsync the folder of roots.json (2)",
    ):
        assert f"root: {what}" in passed
    assert "lease: received" in passed


@pytest.mark.parametrize("way", WAYS)
def test_wherever_it_dies_nothing_that_it_acknowledged_is_lost(
    undisturbed: tuple[Ending, list[str]], tmp_path: Path, way: str
) -> None:
    expected, passed = undisturbed
    power, again = WAYS[way]
    died: set[str] = set()
    plays = rounds(passed)
    together = len(plays)
    for number, names in enumerate(plays):
        ending = play(tmp_path / str(number), Deaths(names, again), power=power)
        assert ending.problems == [], names
        assert ending.state == expected.state, names
        assert (ending.root, ending.revision) == (expected.root, expected.revision), names
        assert ending.content == expected.content, names
        assert (ending.denied, ending.told) == (expected.denied, expected.told), names
        died.update(ending.deaths)
        if number + 1 == together:
            # After a death the story may pass by a point of a later step: each of these alone.
            plays += [[name] for name in passed if name not in died]
    assert died >= set(passed)


def test_a_disk_that_lies_is_found_out(
    undisturbed: tuple[Ending, list[str]], tmp_path: Path
) -> None:
    _, passed = undisturbed
    last = [name for name in passed if name.startswith("delta: acknowledge: the broker has it")]
    ending = play(tmp_path / "agent", Deaths(last[-1:]), power=True, lies=True)
    assert "revision 2 became 0" in " ".join(ending.problems)
