"""A key store in another process: it wraps and unwraps, and the keys never come here.

The program is the operator's: a wrapper about a KMS or an HSM, or the one beside this
(`python -m tasks.authority.keyprogram`) under another user. It reads one line of JSON from its
standard input for each request and writes one to its standard output:

    {"op":"ids"}                                  -> [1,2]
    {"op":"wrap","aad":b64,"secret":b64}          -> {"id":2,"wrapped":b64}
    {"op":"unwrap","aad":b64,"id":1,"wrapped":b64} -> b64
    {"op":"rotate"}                               -> 3
    {"op":"retire","id":1}                        -> null

An answer is `{"ok":true,"result":...}` or `{"ok":false,"error":"..."}`; the error `decryption`
says that something was altered or belongs elsewhere. Binary values are base64url.
"""

from __future__ import annotations

from collections.abc import Sequence

from policyengine.errors import DecodeError
from policyengine.primitives.canonical import b64, unb64
from policyengine.primitives.rand import RandomSource
from tasks.authority.files import StateError
from tasks.authority.program import Program


class CommandStore:
    """Key-encryption keys behind a program.

    Args:
        command: the program and its arguments.
        seconds: how long an answer may take.
    """

    def __init__(self, command: Sequence[str], *, seconds: float = 60.0) -> None:
        self.command = tuple(command)
        self._program = Program(command, seconds=seconds)

    def exists(self) -> bool:
        """Whether there is a key."""
        return bool(self.ids())

    def create(self, random: RandomSource) -> None:
        """Make the first key, unless the program has one already; it draws keys itself."""
        if not self.ids():
            self._program.ask("rotate")

    def ids(self) -> tuple[int, ...]:
        """The numbers of the keys that can be unwrapped with, oldest first."""
        found = self._program.ask("ids")
        if not isinstance(found, list) or not all(type(each) is int and each > 0 for each in found):
            raise self._strange()
        return tuple(sorted(found))

    def wrap(self, secret: bytes, *, aad: bytes, random: RandomSource) -> tuple[int, bytes]:
        """Have something encrypted under the newest key; returns its number and the ciphertext."""
        answer = self._program.ask("wrap", aad=b64(aad), secret=b64(secret))
        try:
            number, wrapped = answer["id"], unb64(answer["wrapped"])
        except (KeyError, TypeError, DecodeError) as error:
            raise self._strange() from error
        if type(number) is not int or number < 1:
            raise self._strange()
        return number, wrapped

    def unwrap(self, number: int, wrapped: bytes, *, aad: bytes) -> bytes:
        """Have decrypted what was wrapped under the key of this number.

        Raises:
            DecryptionError: another place, or damaged.
            StateError: the program does not answer, or has no such key.
        """
        answer = self._program.ask("unwrap", aad=b64(aad), id=number, wrapped=b64(wrapped))
        try:
            return unb64(answer)
        except (TypeError, DecodeError) as error:
            raise self._strange() from error

    def rotate(self, random: RandomSource) -> int:
        """Have another key made, under which everything is wrapped from now on."""
        number = self._program.ask("rotate")
        if type(number) is not int:
            raise self._strange()
        return number

    def retire(self, number: int) -> None:
        """Have an old key destroyed: what is still wrapped under it is lost."""
        self._program.ask("retire", id=number)

    def close(self) -> None:
        """End the program."""
        self._program.close()

    def _strange(self) -> StateError:
        return StateError(f"`{self.command[0]}` answers something else than was asked")
