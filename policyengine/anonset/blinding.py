"""Blinding: attributes become secret elements (PS-ACF, Algorithms 1 and 2).

The paper draws an alias and an optional x_i for each attribute and stores them.
Here both are pseudo-random functions of the attribute under keys of one agent,
domain and epoch: nothing needs to be stored, policies and subjects agree by
construction, and two agents or two epochs share nothing that could be linked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from policyengine.anonset.parameters import Parameters
from policyengine.primitives.canonical import dumps
from policyengine.primitives.prf import prf

ELEMENT: Final = 16
_PURPOSE: Final = "portcullis/anonset/v1"
_COIN: Final = 8


class Blinder:
    """Turns tokens into elements, and holds the keys that do it.

    Args:
        key: 16 to 64 bytes, of one agent, domain and epoch.
        parameters: the encoding; other parameters give unrelated elements.
    """

    def __init__(self, key: bytes, parameters: Parameters) -> None:
        form = dumps(parameters.to_json())
        self._alias_key = prf(key, _PURPOSE, "alias", form)
        self._extra_key = prf(key, _PURPOSE, "x", form)
        self.position_key: Final = prf(key, _PURPOSE, "position", form)
        self.order_key: Final = prf(key, _PURPOSE, "order", form)
        self._threshold = int(parameters.blind_probability * 2 ** (8 * _COIN))

    def elements(self, token: str) -> tuple[bytes, ...]:
        """Return the alias of a token and, for some tokens, its x_i (16 bytes each).

        Args:
            token: a predicate token.
        """
        alias = prf(self._alias_key, token, size=ELEMENT)
        extra = prf(self._extra_key, token, size=_COIN + ELEMENT)
        # Algorithm 1: x_i is a random string with probability p, else empty
        if int.from_bytes(extra[:_COIN], "big") < self._threshold:
            return alias, extra[_COIN:]
        return (alias,)

    def conjunction(self, tokens: Iterable[str]) -> dict[bytes, str]:
        """Return the elements of a conjunction and the token that each stands for.

        Algorithm 2 does the same for policies: where an attribute has an x_i, it
        stands in the policy too. In the order of the elements, which says nothing
        about the attributes.
        """
        owners = {element: token for token in tokens for element in self.elements(token)}
        return dict(sorted(owners.items()))
