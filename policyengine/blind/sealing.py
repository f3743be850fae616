"""Values under two locks: who may read, and whom the home agent still serves.

The key of a value is derived from two secrets:

- of a *capsule*, a key encapsulated under the attribute's read policy (paper 001, section 5.2,
  step 1): only who has the policy's tokens recovers it;
- of the part's *lock*, an ElGamal key h^r under h = g^z, of which g^r travels: the home agent
  raises g^r to its share z2 of the client (paper 004, step 19), the client to its own z1, and
  the product is h^r. Without the agent's share there is no key, whatever tokens a client has.

The lock is new in every part. A capsule says nothing of an event, so a publisher uses it again
for the same policy, `CAPSULE_USES` times at most, and a subscriber remembers what it opened:
pairings are then paid once for many events (ADR 0034). A value is bound to domain, blind epoch,
publication, part and attribute, not to the type (an agent may lower it); its length is hidden
in steps of 32 bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Final

from policyengine.abe import (
    CpUserKey,
    cp_decapsulate,
    cp_encapsulate,
    decode_cp_ciphertext,
    encode_cp_ciphertext,
)
from policyengine.attributes import Value
from policyengine.blind.keys import AgentShare, BlindPublic, ClientKeys
from policyengine.blind.policy import ReadPolicy
from policyengine.blind.wire import Place
from policyengine.errors import DecodeError, DecryptionError, RejectedError
from policyengine.primitives import aead
from policyengine.primitives.canonical import dumps, loads, pack
from policyengine.primitives.kdf import derive
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.sde.group import Group, draw_scalar

CAPSULE_USES: Final = 256
"""How many parts a publisher seals under one capsule."""
CAPSULES: Final = 1024
"""How many capsules a publisher or a subscriber remembers."""
_KEY: Final = b"portcullis/blind/value/v1"
_BLOCK: Final = 32
_END: Final = b"\x80"
_MISMATCH: Final = "the ciphertext does not open"


@dataclass(frozen=True, slots=True)
class Context:
    """What a part's ciphertexts are bound to.

    Args:
        publication: the publication's identifier.
        part: index of the part.
    """

    publication: str
    part: int

    def bound(self, place: Place, name: str) -> bytes:
        """The context of one attribute as bytes."""
        number = str(self.part).encode()
        return pack(_KEY, *place.fields, self.publication.encode(), number, name.encode())


class LockMaker:
    """Makes the locks of parts (hashed ElGamal; 001, section 4.2, in the form of 004).

    Args:
        public: of the epoch.
        random: source of the exponents.
    """

    def __init__(self, public: BlindPublic, random: RandomSource = SYSTEM_RANDOM) -> None:
        self._group, self._random = public.group, random
        self._h_to = self._group.powers_of(self._group.load(public.lock))

    def make(self) -> tuple[bytes, bytes]:
        """Return a new lock's secret h^r, and g^r, which travels."""
        r = draw_scalar(self._group, self._random)
        return self._group.encode(self._h_to(r)), self._group.encode(self._group.generated(r))


def half_open(share: AgentShare, place: Place, lock: bytes) -> bytes:
    """Do the agent's part: raise g^r to z2 (paper 004, step 19, Pre-Decr).

    Args:
        share: the agent's share of the client.
        place: domain and epoch of the lock.
        lock: g^r.

    Raises:
        RejectedError: `blind-epoch` when the share is of another domain or epoch.
        DecodeError: the lock is no element of the group.
    """
    check_place(share.place, place)
    group = share.search.system.arithmetic
    return group.encode(group.power(group.decode(lock), share.share))


def open_lock(keys: ClientKeys, place: Place, lock: bytes, half: bytes) -> bytes:
    """Do the client's part: h^r = (g^r)^z1 * (g^r)^z2.

    Raises:
        RejectedError: `blind-epoch` when the keys are of another domain or epoch.
        DecodeError: an element is none of the group.
    """
    check_place(keys.place, place)
    group: Group = keys.search.system.arithmetic
    own = group.power(group.decode(lock), keys.share)
    return group.encode(group.product(own, group.decode(half)))


def check_place(held: Place, named: Place) -> None:
    """Refuse what is of another domain or epoch.

    Raises:
        RejectedError: `blind-epoch`.
    """
    if held != named:
        raise RejectedError("blind-epoch", "the keys are of another domain or blind epoch")


class CapsuleMaker:
    """A publisher's capsules, each for one policy. Safe to share between threads.

    Args:
        keys: the publisher's.
        uses: for how many parts a capsule is used.
        random: source of the secrets.
    """

    def __init__(
        self, keys: ClientKeys, *, uses: int = CAPSULE_USES, random: RandomSource = SYSTEM_RANDOM
    ) -> None:
        self._keys, self._uses, self._random = keys, uses, random
        self._made: OrderedDict[ReadPolicy, tuple[bytes, bytes, int]] = OrderedDict()
        self._lock = Lock()

    def capsule(self, policy: ReadPolicy) -> tuple[bytes, bytes]:
        """Return a capsule's secret (32 bytes) and its bytes.

        Args:
            policy: who may open it; not `NOBODY`.
        """
        with self._lock:
            found = self._made.pop(policy, None)
            secret, data, left = self._fresh(policy) if found is None else found
            if left > 1:
                self._made[policy] = secret, data, left - 1
            if len(self._made) > CAPSULES:
                self._made.popitem(last=False)
            return secret, data

    def _fresh(self, policy: ReadPolicy) -> tuple[bytes, bytes, int]:
        tree = policy.tree
        assert tree is not None  # the caller seals nothing for nobody
        secret, capsule = cp_encapsulate(self._keys.policies, tree, self._random)
        return secret, encode_cp_ciphertext(capsule), self._uses


class CapsuleOpener:
    """A subscriber's opened capsules. Safe to share between threads.

    Args:
        readers: a key for each variant of the subject.
    """

    def __init__(self, readers: tuple[CpUserKey, ...]) -> None:
        self._readers = readers
        self._opened: OrderedDict[bytes, bytes | None] = OrderedDict()
        self._lock = Lock()

    def secret(self, capsule: bytes) -> bytes | None:
        """Return a capsule's secret, or None where no variant of the subject may open it."""
        name = sha256(capsule).digest()
        with self._lock:
            if name not in self._opened:
                self._opened[name] = self._open(capsule)
                if len(self._opened) > CAPSULES:
                    self._opened.popitem(last=False)
            self._opened.move_to_end(name)
            return self._opened[name]

    def _open(self, capsule: bytes) -> bytes | None:
        try:
            decoded = decode_cp_ciphertext(capsule)
        except DecodeError:
            return None
        for reader in self._readers:
            try:
                return cp_decapsulate(reader, decoded)
            except DecryptionError:
                continue
        return None


def seal_value(
    value: Value, bound: bytes, lock: bytes, capsule: bytes, random: RandomSource
) -> bytes:
    """Encrypt a value.

    Args:
        value: the value.
        bound: `Context.bound` of its attribute.
        lock: the lock's secret.
        capsule: the capsule's secret.
        random: source of the nonce.
    """
    plain = dumps(value) + _END
    padded = plain.ljust(-(-len(plain) // _BLOCK) * _BLOCK, b"\0")
    return aead.seal(_key(bound, lock, capsule), padded, aad=bound, random=random)


def open_value(data: bytes, bound: bytes, lock: bytes, capsule: bytes) -> Value:
    """Decrypt what `seal_value` made.

    Raises:
        DecryptionError: it does not open; all causes look alike.
    """
    padded = aead.open_(_key(bound, lock, capsule), data, aad=bound)
    plain, end, rest = padded.rpartition(_END)
    if not end or rest.strip(b"\0"):
        raise DecryptionError(_MISMATCH)
    try:
        value = loads(plain)
    except DecodeError as error:
        raise DecryptionError(_MISMATCH) from error
    if not isinstance(value, str | int | float | bool):
        raise DecryptionError(_MISMATCH)
    return value


def _key(bound: bytes, lock: bytes, capsule: bytes) -> bytes:
    return derive(pack(lock, capsule), info=bound)
