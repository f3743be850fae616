"""The life of an epoch: staged, current, draining, retired.

A staged epoch opens already, so that members may switch one after the other; only the
current one seals; a draining one opens what is still under way; a retired one is over.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from policyengine.errors import InputError

EpochState = Literal["staged", "current", "draining", "retired"]
STATES: Final[tuple[EpochState, ...]] = get_args(EpochState)


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


def _known(state: str) -> str:
    if state not in STATES:
        raise InputError("unknown", f"`{state}` is no state of an epoch", where="state")
    return state
