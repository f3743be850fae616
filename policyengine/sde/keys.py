"""Init and Keygen: the trusted authority's part (paper 001, section 5.1).

The authority holds x and the PRF's key s. A user, publisher or subscriber alike, gets
(s, x1); the broker that serves the user gets (user, x2) with x1 + x2 = x.

Correction to the paper, section 5.3: the broker's key must not hold s, or the broker
could make the trapdoor of every guess. It needs x2 only.

Collusion: a broker and any one of its users together know x = x1 + x2 and s, and read
every filter and event of the system. The scheme has no defence; deleting a user's share
at the broker ends what the user can do, but does not undo what both once knew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from policyengine.attributes import shown
from policyengine.errors import RejectedError
from policyengine.primitives.canonical import pack
from policyengine.primitives.prf import prf
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.sde.group import GroupName, draw_scalar, wide_scalar
from policyengine.sde.groups import group_of
from policyengine.sde.wire import FINGERPRINT, Reader, System, check_user, user_field, write

SECRET_BYTES: Final = 32
_SIGMA: Final = "portcullis sde sigma v1"
_SYSTEM: Final = b"portcullis sde system v1"


@dataclass(frozen=True, slots=True)
class MasterKey:
    """What the trusted authority keeps: x and s.

    Args:
        system: which set-up this is.
        exponent: x.
        secret: s, the PRF's key.
    """

    system: System
    exponent: int = field(repr=False)
    secret: bytes = field(repr=False)

    def encode(self) -> bytes:
        """Write the key."""
        size = self.system.arithmetic.scalar_bytes
        return write("master", self.system, self.exponent.to_bytes(size, "big"), self.secret)

    @classmethod
    def decode(cls, data: bytes) -> MasterKey:
        """Read a key.

        Raises:
            DecodeError: the bytes are not canonical.
        """
        reader = Reader(data, "master")
        key = cls(reader.system, reader.scalar(), reader.take(SECRET_BYTES))
        reader.end()
        return key


@dataclass(frozen=True, slots=True)
class UserKey:
    """What a publisher or a subscriber holds.

    Args:
        system: which set-up it belongs to.
        user: the user's name, 1 to 255 bytes in UTF-8.
        public: h, encoded.
        share: x1.
        secret: s, the same for all users; brokers never see it.
    """

    system: System
    user: str
    public: bytes
    share: int = field(repr=False)
    secret: bytes = field(repr=False)

    def sigma(self, token: str) -> int:
        """Return sigma = PRF_s(token) as a scalar (paper 001, section 5.2, step 3).

        Args:
            token: text of an element.
        """
        drawn = prf(self.secret, _SIGMA, self.system.group, token, size=64)
        return wide_scalar(self.system.arithmetic, drawn)

    def encode(self) -> bytes:
        """Write the key."""
        share = self.share.to_bytes(self.system.arithmetic.scalar_bytes, "big")
        name = user_field(self.user)
        return write("user", self.system, name, self.public, share, self.secret)

    @classmethod
    def decode(cls, data: bytes) -> UserKey:
        """Read a key.

        Raises:
            DecodeError: the bytes are not canonical.
        """
        reader = Reader(data, "user")
        user, public, share = reader.user(), reader.element(), reader.scalar()
        key = cls(reader.system, user, public, share, reader.take(SECRET_BYTES))
        reader.end()
        return key


@dataclass(frozen=True, slots=True)
class BrokerKey:
    """What a broker holds for one user.

    Args:
        system: which set-up it belongs to.
        user: the user's name.
        share: x2.
    """

    system: System
    user: str
    share: int = field(repr=False)

    def check_owner(self, system: System, user: str) -> None:
        """Check that this is the share of the user who made something.

        Raises:
            RejectedError: `system` when it is of another set-up, `user` of another user.
        """
        if system != self.system:
            raise RejectedError("system", "the ciphertext belongs to another system")
        if user != self.user:
            raise RejectedError("user", f"the share is not that of {shown(user)}")

    def encode(self) -> bytes:
        """Write the key."""
        share = self.share.to_bytes(self.system.arithmetic.scalar_bytes, "big")
        return write("share", self.system, user_field(self.user), share)

    @classmethod
    def decode(cls, data: bytes) -> BrokerKey:
        """Read a key.

        Raises:
            DecodeError: the bytes are not canonical.
        """
        reader = Reader(data, "share")
        key = cls(reader.system, reader.user(), reader.scalar())
        reader.end()
        return key


def init(group: GroupName = "curve", *, random: RandomSource = SYSTEM_RANDOM) -> MasterKey:
    """Set a system up: draw x and s (paper 001, section 5.1).

    Args:
        group: `curve` (secp256k1) or `zp1024` (only to reproduce the papers).
        random: source of both.

    Raises:
        InputError: `unknown` for another group.
    """
    arithmetic = group_of(group)
    exponent = draw_scalar(arithmetic, random)
    public = arithmetic.encode(arithmetic.generated(exponent))
    return MasterKey(_system(group, public), exponent, random.token(SECRET_BYTES))


def keygen(
    master: MasterKey, user: str, *, random: RandomSource = SYSTEM_RANDOM
) -> tuple[UserKey, BrokerKey]:
    """Split x for one user (paper 001, section 5.1, Keygen).

    Args:
        master: the authority's key.
        user: the user's name, 1 to 255 bytes in UTF-8.
        random: source of x1.

    Returns:
        The user's key with x1 and the broker's with x2 = x - x1.

    Raises:
        InputError: `invalid` for a name that cannot be one.
    """
    check_user(user)
    system, group = master.system, master.system.arithmetic
    own = draw_scalar(group, random, master.exponent)
    public = group.encode(group.generated(master.exponent))
    broker = BrokerKey(system, user, (master.exponent - own) % group.order)
    return UserKey(system, user, public, own, master.secret), broker


def _system(group: GroupName, public: bytes) -> System:
    digest = sha256(pack(_SYSTEM, group.encode(), public)).digest()
    return System(group, digest[:FINGERPRINT])
