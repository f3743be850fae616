"""A publisher's trapdoors, with memory.

A broker sees TD(a) of an element a, the same in every event, so that to send it the very
same blinded pair again tells it nothing; a publisher that has made a trapdoor before spares
itself three group operations.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Final

from policyengine.attributes import Element
from policyengine.errors import InputError
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.sde.events import MAX_TRAPDOORS, UserEvent, pads, trapdoor
from policyengine.sde.keys import UserKey

MEMORY: Final = 65_536
"""Default: how many trapdoors are remembered."""


class TrapdoorMaker:
    """Makes the trapdoors of one publisher. Safe to share between threads.

    Args:
        key: the publisher's.
        memory: how many trapdoors to remember; what was not used for longest goes first.
        random: source of the blinding and of the choice of padding.
    """

    def __init__(
        self, key: UserKey, *, memory: int = MEMORY, random: RandomSource = SYSTEM_RANDOM
    ) -> None:
        self._key, self._limit, self._random = key, memory, random
        group = key.system.arithmetic
        self._h_to = group.powers_of(group.load(key.public))
        self._made: OrderedDict[str, tuple[bytes, bytes]] = OrderedDict()
        self._lock = Lock()

    def event(self, elements: Iterable[Element], *, padding: int = 1) -> UserEvent:
        """Make the trapdoors of some elements (paper 001, section 5.2).

        Args:
            elements: what is true of the event, each once.
            padding: the number of trapdoors becomes a multiple of this; 1 for none.

        Raises:
            InputError: `too-large` beyond 65,536 trapdoors.
        """
        tokens = [element.token for element in elements]
        tokens += pads(-len(tokens) % padding, padding, self._random)
        if len(tokens) > MAX_TRAPDOORS:
            raise InputError("too-large", f"the event needs over {MAX_TRAPDOORS} trapdoors")
        with self._lock:
            made = sorted(self._trapdoor(token) for token in tokens)
        return UserEvent(self._key.system, self._key.user, tuple(made))

    def _trapdoor(self, token: str) -> tuple[bytes, bytes]:
        found = self._made.get(token)
        if found is None:
            found = self._made[token] = trapdoor(self._key, token, self._h_to, self._random)
            if len(self._made) > self._limit:
                self._made.popitem(last=False)
        else:
            self._made.move_to_end(token)
        return found
