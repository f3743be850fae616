"""Control messages that could not be kept, because the disk was full: tried again."""

from __future__ import annotations

from brokers.ports import Message

_EVERY = 1.0


class PutOff:
    """Messages that the broker keeps for us, unacknowledged, until they are dealt with.

    The broker gives none of them again while the connection lasts, and lets only so many be open:
    of two alike one is let go, for the control plane sends again what is not acknowledged to it.
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._due = float("-inf")

    def __len__(self) -> int:
        return len(self._messages)

    def replace(self, message: Message) -> None:
        """A message came: it stands for those alike, and alone is open from now on."""
        alike = [one for one in self._messages if one.body == message.body]
        for one in alike:
            self._messages.remove(one)
            # Without effect where it came over a connection that is gone.
            one.ack()

    def add(self, message: Message, boot: float) -> None:
        """Try a message again later."""
        self._messages.append(message)
        self._due = boot + _EVERY

    def due(self, boot: float) -> list[Message]:
        """What is to be tried now, in the order in which it came."""
        if not self._messages or boot < self._due:
            return []
        found, self._messages = self._messages, []
        return found
