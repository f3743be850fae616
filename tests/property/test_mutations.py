"""Twenty thousand changed messages: none believed, no other error, nothing changed, nothing kept.

`make soak` judges the rest of a million by the same campaign. A message that fails can be made
again alone: the problem names the seed and the number that give it.
"""

from __future__ import annotations

import os

import pytest

from tests.support.dice import Dice
from tests.support.mutation_campaign import agent_targets, campaign
from tests.support.mutation_targets import targets
from tests.support.mutations import mutate

CASES = int(os.environ.get("PORTCULLIS_MUTATIONS", "20000"))
SEED = os.environ.get("PORTCULLIS_MUTATIONS_SEED", "mutations")
KINDS = len((*targets(), *agent_targets()))


@pytest.mark.parametrize("target", [each for each in targets() if each.name != "chunk"])
def test_what_the_signer_wrote_is_believed(target):
    for layer in target.layers:
        for genuine in layer.genuine:
            assert target.judge(layer.wrap(genuine)) is not None


@pytest.mark.parametrize("name", [each.name for each in agent_targets()])
def test_an_agent_takes_what_the_signer_wrote(name):
    (target,) = (each for each in agent_targets() if each.name == name)
    wires = target.layers[0].genuine
    told = [target.judge(wire) for wire in (wires if "chunk" in name else wires[:1])]
    assert target.changed() or "'received'" in told[0]


def test_no_changed_message_is_believed():
    outcome = campaign(SEED, CASES)
    assert outcome.problems == []
    assert outcome.cases == CASES
    assert outcome.written < CASES / 4
    # Every kind was tried, and refused for many reasons: no judge refuses everything alike.
    assert len(outcome.kinds) == KINDS
    assert min(outcome.kinds.values()) > CASES / KINDS / 2
    for reason in ("malformed", "signature", "audience", "previous", "rollback", "replay"):
        assert outcome.refused[reason] > CASES / 2000


def test_a_number_gives_the_same_message_again():
    for target in targets():
        for number in range(20):
            first, second = (mutate(target, Dice(f"again/{number}")) for _ in range(2))
            assert (first.how, first.written) == (second.how, second.written)
