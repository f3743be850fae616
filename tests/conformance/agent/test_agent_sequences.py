"""Honest and hostile messages, restarts and clocks in any order: the model says what must hold."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.conformance.agent.cases import FORGED
from tests.conformance.agent.model import SILENCE
from tests.conformance.agent.play import FIRST, Ask, Factory, Player, Restart, Send, Step, Wait
from tests.conformance.agent.world import (
    ANNA,
    BEN,
    FLIGHTS,
    GONE,
    HEATING,
    Bundle,
    Chunk,
    Lease,
    Message,
    Notice,
    Roots,
)

READERS = ((ANNA,), (BEN,), (ANNA, GONE))
BUNDLES = st.builds(
    Bundle,
    revision=st.integers(4, 9),
    allowed=st.sampled_from(READERS),
    domain=st.sampled_from((FLIGHTS, HEATING)),
    expires=st.sampled_from((30, 10**7)),
    through=st.integers(0, 2),
    root=st.sampled_from((1, 1, 1, 2)),
)
DELTAS = st.builds(
    lambda revision, allowed: Bundle(revision, allowed, follows=FIRST, delta=True),
    st.integers(6, 8),
    st.sampled_from(READERS),
)
BIG = Bundle(7, (BEN,), chunked=True)
HONEST: st.SearchStrategy[Message] = st.one_of(
    BUNDLES,
    BUNDLES,
    DELTAS,
    st.just(BIG),
    st.builds(Chunk, st.just(BIG), st.integers(0, 3)),
    st.builds(
        Notice,
        st.integers(1, 4),
        st.sampled_from(((), (ANNA,), (BEN,))),
        st.sampled_from(((), ((ANNA, 7),))),
        st.sampled_from((0, 0, 6)),
    ),
    st.builds(
        Lease,
        answers=st.sampled_from((-1, -1, -1, -2, -3)),
        seconds=st.sampled_from((5, 30)),
        minimum=st.sampled_from(
            (
                {FLIGHTS: (0, 0), HEATING: (0, 0)},
                {FLIGHTS: (6, 2), HEATING: (0, 0)},
                {HEATING: (0, 0)},
            )
        ),
        root=st.sampled_from((1, 1, 2)),
    ),
    st.builds(Roots, st.sampled_from(((2,), (1,), (2, 3))), st.sampled_from(((), (FLIGHTS,)))),
)
OTHER: st.SearchStrategy[Step] = st.one_of(
    st.just(Ask()),
    st.just(Restart()),
    st.builds(Wait, st.sampled_from((1.0, 20.0)), st.sampled_from((None, -100.0, 100.0))),
)
# an answer that needs what came before it depends on the steps drawn; these do not
PLAIN = tuple(case for case in FORGED if len(case.steps) == 1)
STEPS = st.lists(st.one_of(HONEST, OTHER, st.sampled_from(PLAIN)), max_size=10)
FOLDERS = itertools.count()


@given(steps=STEPS)
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    # a case has ten steps at most: it reads as well unshrunk, and a failure is told in seconds
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_comes_in_whatever_order(
    factory: Factory, begun: Player, tmp_path: Path, steps: list[object]
) -> None:
    player = Player(factory, tmp_path / str(next(FOLDERS)))
    player.resume(begun)
    for step in steps:
        if isinstance(step, Ask | Restart | Wait):
            player.step(step)
        elif isinstance(step, Bundle | Chunk | Notice | Lease | Roots):
            player.hears(step)
        else:
            # whatever it must hear at this moment: nothing comes of it
            before = player.kept()
            player.hostile(step.steps[0].message)  # type: ignore[attr-defined]
            assert player.kept() == before
        player.check()


def test_the_model_is_no_mirror_of_the_agent(begun: Player) -> None:
    """It knows what the steps before it made, and nothing that a hostile message said."""
    assert begun.model.holding(FLIGHTS).revision == FIRST.revision
    assert begun.model.receivers(FLIGHTS) == {ANNA}
    assert Send(replace(FIRST), SILENCE).message == FIRST
