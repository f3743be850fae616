"""Taking binary fields off the front of bytes, strictly."""

from __future__ import annotations

from policyengine.errors import DecodeError


class ByteReader:
    """Takes bytes from the front, never more than there are.

    Args:
        data: what is read.
        at: where to begin.
    """

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    @property
    def left(self) -> int:
        """How many bytes have not been taken."""
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        """Return the next bytes.

        Raises:
            DecodeError: there are not so many.
        """
        if size > self.left:
            raise DecodeError("the bytes end too early")
        start, self._at = self._at, self._at + size
        return self._data[start : self._at]

    def number(self, size: int) -> int:
        """Return the next bytes as a whole number, the highest byte first.

        Raises:
            DecodeError: there are not so many.
        """
        return int.from_bytes(self.take(size), "big")

    def end(self) -> None:
        """Make sure that nothing is left.

        Raises:
            DecodeError: something is.
        """
        if self.left:
            raise DecodeError("there are bytes behind the end")
