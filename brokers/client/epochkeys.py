"""A client's keys of one blind epoch, read once, with what they have made and opened."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from policyengine.blind import BlindPublic, ClientKeys, DeliveryOpener, EventSealer
from policyengine.errors import DecodeError

_EPOCHS = 16
"""How many epochs' keys, read once and with what they remember, a process holds."""


class EpochKeys:
    """The keys of one epoch.

    Args:
        public: `blind.BlindPublic`.
        keys: `blind.ClientKeys`, as the bundle brings them.
    """

    def __init__(self, public: bytes, keys: bytes) -> None:
        self.public, self.own = BlindPublic.from_bytes(public), ClientKeys.from_bytes(keys)
        self.sealer = EventSealer(self.public, self.own)
        self.opener = DeliveryOpener(self.own)
        self._with = lru_cache(maxsize=_EPOCHS)(self._opener)

    def opener_with(self, filters: tuple[bytes, ...]) -> DeliveryOpener:
        """What opens deliveries with the keys of filters beside the bundle's own.

        Args:
            filters: `blind.ClientKeys` of each filter.

        Raises:
            DecodeError: keys that are none, or of another client or epoch.
        """
        return self._with(filters) if filters else self.opener

    def _opener(self, filters: tuple[bytes, ...]) -> DeliveryOpener:
        # Keys of two filters are never put together: each opens what it opens alone.
        readers = [*self.own.readers]
        for each in map(ClientKeys.from_bytes, filters):
            if (each.place, each.handle) != (self.own.place, self.own.handle):
                raise DecodeError("a filter's key stands in the place of another one")
            readers += each.readers
        return DeliveryOpener(replace(self.own, readers=tuple(readers)))


# Kept over policies: a new revision of the same epoch need not read keys, make capsules and
# open capsules again, all of which costs pairings.
epoch_keys = lru_cache(maxsize=_EPOCHS)(EpochKeys)
