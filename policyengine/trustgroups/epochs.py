"""The life of an epoch: staged, current, draining, retired.

A staged epoch opens already, so that members may switch one after the other; only the
current one seals; a draining one opens what is still under way; a retired one is over.
An epoch only moves on, never back; a staged one that is given up retires unused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from policyengine.errors import InputError

EpochState = Literal["staged", "current", "draining", "retired"]
STATES: Final[tuple[EpochState, ...]] = get_args(EpochState)
TRANSITIONS: Final[Mapping[EpochState, tuple[EpochState, ...]]] = {
    "staged": ("current", "retired"),
    "current": ("draining",),
    "draining": ("retired",),
    "retired": (),
}
"""Where each state leads."""


def may_seal(state: str) -> bool:
    """Tell whether new ciphertexts may be made in an epoch of this state.

    Raises:
        InputError: `unknown` for a word that is no state.
    """
    return _known(state) == "current"


def may_open(state: str) -> bool:
    """Tell whether ciphertexts of an epoch in this state are still accepted.

    Raises:
        InputError: `unknown` for a word that is no state.
    """
    return _known(state) != "retired"


def check_transition(state: str, target: str) -> None:
    """Check that an epoch may move from one state to another.

    Raises:
        InputError: `unknown` for a word that is no state, `invalid` for a step that
            `TRANSITIONS` does not have.
    """
    if _known(target) not in TRANSITIONS[_known(state)]:
        raise InputError(
            "invalid", f"an epoch that is {state} does not become {target}", where="state"
        )


def _known(state: str) -> EpochState:
    for known in STATES:
        if state == known:
            return known
    raise InputError("unknown", f"`{state}` is no state of an epoch", where="state")
