"""Keys of the blind profiles: of one domain and one blind epoch.

Who holds what:

- the trusted authority the `BlindMaster`;
- everybody concerned, agents included, the `BlindPublic`;
- each client its `ClientKeys`: what makes trapdoors and filters (001), what encrypts values
  for those whom a policy names, what reads by its own subject's tokens, and its half of the
  exponent of the second lock;
- the client's home agent its `AgentShare`: the other halves (001, section 5.1; 004, step 19).

A sealed value has two locks (`sealing`): a key of ciphertext-policy encryption, which only
those hold who have the policy's tokens, and an ElGamal key under h = g^z, of which neither
client nor agent holds the exponent: z = z1 + z2 for each client anew. So a client cannot read
once its agent has deleted the share, and an agent can read nothing with its shares alone.

Both halves are drawn from the master's seed and the handle: enrolling a client again in the
same epoch, with other tokens, changes the client's keys and leaves the agent's share as it is.

Collusion: an agent and any one of its clients together know x, s and z of the epoch: they
read all filters and searchable values of the domain, and the second lock is no lock to them.
The first one holds. A revoked reader together with a client that still has its share, but no
right to read, opens both locks; a new epoch, which the revocation of a reader begins, ends that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from policyengine import sde
from policyengine.abe import (
    CpMasterKey,
    CpPublicKey,
    CpUserKey,
    cp_keygen_of,
    cp_public_key,
    cp_setup,
    decode_cp_master,
    decode_cp_public,
    decode_cp_user,
    encode_cp_master,
    encode_cp_public,
    encode_cp_user,
)
from policyengine.blind.policy import ANYBODY, token_element
from policyengine.blind.wire import CLIENT, MASTER, PUBLIC, SHARE, Place, read, read_exactly, write
from policyengine.errors import DecodeError, InputError
from policyengine.primitives.canonical import pack
from policyengine.primitives.kdf import derive
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.primitives.records import IDENTIFIER
from policyengine.primitives.stream import KeyStream
from policyengine.sde.group import Group, GroupName, draw_scalar
from policyengine.sde.groups import name_of, number_of
from policyengine.sde.wire import FINGERPRINT

USES: Final = 2
"""How often a token may stand in one sheet of a policy; a policy has sheets as it needs them."""
MAX_VARIANTS: Final = 64
"""Most variants of a subject."""
_SEED: Final = 32
_SEARCH: Final = b"portcullis/blind/search share/v1"
_READ: Final = b"portcullis/blind/reading share/v1"


@dataclass(frozen=True, slots=True)
class BlindPublic:
    """What everybody may know; nothing in it helps to test a guess.

    Args:
        place: domain and epoch.
        search: set-up of the searchable encryption; also names the group.
        lock: h = g^z, encoded.
    """

    place: Place
    search: sde.System
    lock: bytes

    @property
    def group(self) -> Group:
        """The group of searchable encryption and of the second lock."""
        return self.search.arithmetic

    def to_bytes(self) -> bytes:
        """Write the key."""
        group = bytes([number_of(self.search.group)])
        return write(PUBLIC, self.place, (group + self.search.fingerprint, self.lock))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a key.

        Raises:
            DecodeError: not the canonical bytes of one.
        """
        place, (search, lock) = read_exactly(data, PUBLIC, 2)
        if len(search) != 1 + FINGERPRINT:
            raise DecodeError("the blind public key names no set-up")
        system = sde.System(name_of(search[0]), search[1:])
        system.arithmetic.decode(lock)
        return cls(place, system, lock)


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """All that a client holds of one epoch.

    Args:
        place: domain and epoch.
        search: makes trapdoors and filters; names the client's handle.
        share: z1.
        policies: encrypts under policies; kept from agents, for it can test guesses of them.
        readers: one key for each variant of the subject; none reads nothing.
    """

    place: Place
    search: sde.UserKey
    share: int = field(repr=False)
    policies: CpPublicKey = field(repr=False)
    readers: tuple[CpUserKey, ...] = field(default=(), repr=False)

    @property
    def handle(self) -> str:
        """The client's handle."""
        return self.search.user

    def to_bytes(self) -> bytes:
        """Write the keys."""
        share = _scalar_bytes(self.search.system.arithmetic, self.share)
        readers = [encode_cp_user(reader) for reader in self.readers]
        policies = encode_cp_public(self.policies)
        return write(CLIENT, self.place, (self.search.encode(), share, policies, *readers))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read keys.

        Raises:
            DecodeError: not the canonical bytes of them.
        """
        place, fields = read(data, CLIENT)
        if not 3 <= len(fields) <= 3 + MAX_VARIANTS:
            raise DecodeError("the blind client's keys have other fields")
        search = sde.UserKey.decode(fields[0])
        _check_handle(search.user)
        return cls(
            place,
            search,
            _read_scalar(search.system.arithmetic, fields[1]),
            decode_cp_public(fields[2]),
            tuple([decode_cp_user(reader) for reader in fields[3:]]),
        )


@dataclass(frozen=True, slots=True)
class AgentShare:
    """What a home agent holds for one client and epoch; deleting it ends what the client can do.

    Args:
        place: domain and epoch.
        search: x2, finishes the client's trapdoors and filters; names the client's handle.
        share: z2, pre-decrypts for the client.
    """

    place: Place
    search: sde.BrokerKey
    share: int = field(repr=False)

    @property
    def handle(self) -> str:
        """The handle of the client that the share is of."""
        return self.search.user

    def to_bytes(self) -> bytes:
        """Write the share."""
        share = _scalar_bytes(self.search.system.arithmetic, self.share)
        return write(SHARE, self.place, (self.search.encode(), share))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a share.

        Raises:
            DecodeError: not the canonical bytes of one.
        """
        place, (first, second) = read_exactly(data, SHARE, 2)
        search = sde.BrokerKey.decode(first)
        _check_handle(search.user)
        return cls(place, search, _read_scalar(search.system.arithmetic, second))


@dataclass(frozen=True, slots=True)
class BlindMaster:
    """The master keys of one domain and epoch; the trusted authority's alone.

    Args:
        place: domain and epoch.
        search: master key of the searchable encryption (paper 001, section 5.1).
        lock: z.
        seed: from which the shares of clients are drawn.
        policies: master key of the ciphertext-policy encryption.
    """

    place: Place
    search: sde.MasterKey
    lock: int = field(repr=False)
    seed: bytes = field(repr=False)
    policies: CpMasterKey = field(repr=False)

    @classmethod
    def init(
        cls,
        random: RandomSource = SYSTEM_RANDOM,
        *,
        domain: str,
        epoch: int,
        group: GroupName = "curve",
    ) -> Self:
        """Set a new epoch up (Init, paper 001, section 5.1).

        Args:
            random: source of all secrets.
            domain: name of the domain.
            epoch: its number.
            group: `curve` (secp256k1) or `zp1024` (only to reproduce the papers).

        Raises:
            InputError: `invalid` for a name or number that cannot be one, `unknown` for
                another group.
        """
        search = sde.init(group, random=random)
        lock = draw_scalar(search.system.arithmetic, random)
        seed = random.token(_SEED)
        return cls(Place(domain, epoch), search, lock, seed, cp_setup(uses=USES, random=random))

    def public(self) -> BlindPublic:
        """Return what everybody concerned may know."""
        group = self.search.system.arithmetic
        return BlindPublic(self.place, self.search.system, group.encode(group.generated(self.lock)))

    def enrol(
        self,
        handle: str,
        variants: Sequence[Collection[str]],
        random: RandomSource = SYSTEM_RANDOM,
    ) -> tuple[ClientKeys, AgentShare]:
        """Make a client's keys and its home agent's share (Keygen, paper 001, section 5.1).

        The same handle gets the same halves of the exponents each time, so that a client
        whose tokens change gets new keys while its agent keeps the share.

        Args:
            handle: the client's handle.
            variants: for each variant of the subject its tokens; the tokens of two variants
                are never put together. None reads nothing, but may publish and search.
            random: source of the reading keys.

        Raises:
            InputError: `invalid` for a handle that cannot be one, `too-large` for over
                `MAX_VARIANTS` variants.
        """
        if len(variants) > MAX_VARIANTS:
            raise InputError("too-large", f"a subject has at most {MAX_VARIANTS} variants")
        own, first, share = self._halves(handle)
        readers = tuple(
            cp_keygen_of(self.policies, [ANYBODY, *map(token_element, tokens)], random)
            for tokens in variants
        )
        keys = ClientKeys(self.place, own, first, cp_public_key(self.policies), readers)
        return keys, share

    def share(self, handle: str) -> AgentShare:
        """Make the home agent's share alone, the same as `enrol` gives.

        Raises:
            InputError: `invalid` for a handle that cannot be one.
        """
        return self._halves(handle)[2]

    def _halves(self, handle: str) -> tuple[sde.UserKey, int, AgentShare]:
        IDENTIFIER.clean(handle, "handle")
        own, broker = sde.keygen(self.search, handle, random=self._drawn(_SEARCH, handle))
        group = self.search.system.arithmetic
        first = draw_scalar(group, self._drawn(_READ, handle), self.lock)
        return own, first, AgentShare(self.place, broker, (self.lock - first) % group.order)

    def to_bytes(self) -> bytes:
        """Write the keys."""
        lock = _scalar_bytes(self.search.system.arithmetic, self.lock)
        policies = encode_cp_master(self.policies)
        return write(MASTER, self.place, (self.search.encode(), lock, self.seed, policies))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read keys.

        Raises:
            DecodeError: not the canonical bytes of them.
        """
        place, (first, lock, seed, policies) = read_exactly(data, MASTER, 4)
        search = sde.MasterKey.decode(first)
        if len(seed) != _SEED:
            raise DecodeError("the blind master key has another seed")
        exponent = _read_scalar(search.system.arithmetic, lock)
        return cls(place, search, exponent, seed, decode_cp_master(policies))

    def _drawn(self, purpose: bytes, handle: str) -> RandomSource:
        secret = derive(self.seed, info=pack(purpose, *self.place.fields, handle.encode()))
        return _Drawn(secret)


class _Drawn:
    """A source that gives the same bytes for the same secret."""

    def __init__(self, secret: bytes) -> None:
        self._stream = KeyStream(secret)

    def token(self, size: int) -> bytes:
        return self._stream.read(size)


def _check_handle(handle: str) -> None:
    try:
        IDENTIFIER.clean(handle, "handle")
    except InputError as error:
        raise DecodeError("the handle is none") from error


def _scalar_bytes(group: Group, scalar: int) -> bytes:
    return scalar.to_bytes(group.scalar_bytes, "big")


def _read_scalar(group: Group, data: bytes) -> int:
    scalar = int.from_bytes(data, "big")
    if len(data) != group.scalar_bytes or not 0 < scalar < group.order:
        raise DecodeError("a scalar is out of range")
    return scalar
