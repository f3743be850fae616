"""Payloads for those whose filter holds *and* who satisfy a policy of the publisher.

The paper encrypts M under the policy first (M') and M' under the event's attributes, as if M'
were an element of GT, which it is not. Here both are encapsulations of keys: the policy's
header travels inside what the filter opens, so a broker and a subscriber whose filter does
not hold see nothing of the policy, and a reader needs both keys.

Bytes: version (1), length of the filter's encapsulation (4), the encapsulation, sealed
remainder. The remainder is, inside, the length of the policy's encapsulation (4), the
encapsulation, sealed payload. The caller's header is authenticated in both layers.

Source: paper 001, section 5.2, steps 1 and 2, and section 5.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from policyengine.abe import cpabe, hybrid, kpabe
from policyengine.abe.cp_model import CpPublicKey, CpUserKey
from policyengine.abe.cp_wire import decode_cp_ciphertext, encode_cp_ciphertext
from policyengine.abe.kp_model import FilterKey, PublicKey
from policyengine.abe.kp_wire import decode_ciphertext, encode_ciphertext
from policyengine.attributes.universe import Element, Node
from policyengine.errors import DecodeError, DecryptionError
from policyengine.primitives.canonical import pack, unpack
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource

_VERSION: Final = b"\x01"
_OUTER: Final = b"portcullis/abe/nested/filter/v1"
_INNER: Final = b"portcullis/abe/nested/policy/v1"
_MISMATCH: Final = "the ciphertext does not open"


def seal_nested(
    filters: PublicKey,
    policies: CpPublicKey,
    *,
    elements: Iterable[Element],
    policy: Node,
    payload: bytes,
    header: bytes,
    random: RandomSource = SYSTEM_RANDOM,
) -> bytes:
    """Encrypt a payload under an event's elements and a policy.

    Args:
        filters: public key of the filters' authority.
        policies: public key of the policies' authority.
        elements: everything true of the event.
        policy: from `cpabe.payload_policy`.
        payload: what to hide.
        header: what must be the same when it is opened; not hidden, not stored.
        random: source of all secrets.

    Raises:
        InputError: as `kpabe.encapsulate` and `cpabe.encapsulate`.
    """
    inner_secret, inner = cpabe.encapsulate(policies, policy, random)
    inner_head = encode_cp_ciphertext(inner)
    sealed = hybrid.seal(inner_secret, payload, pack(_INNER, header, inner_head), random=random)
    outer_secret, outer = kpabe.encapsulate(filters, elements, random)
    outer_head = encode_ciphertext(outer)
    rest = hybrid.seal(
        outer_secret, pack(inner_head, sealed), pack(_OUTER, header, outer_head), random=random
    )
    return _VERSION + pack(outer_head, rest)


def open_nested(filter_key: FilterKey, user_key: CpUserKey, data: bytes, header: bytes) -> bytes:
    """Decrypt what `seal_nested` made.

    Args:
        filter_key: key of a filter that holds for the event.
        user_key: key of a subject that satisfies the policy.
        data: what was sent.
        header: as it was given to `seal_nested`.

    Raises:
        DecryptionError: one of the keys does not open it, or something was changed; all look
            alike.
    """
    if data[:1] != _VERSION:
        raise DecryptionError(_MISMATCH)
    try:
        outer_head, rest = unpack(data[1:], 2)
        secret = kpabe.decapsulate(filter_key, decode_ciphertext(outer_head))
        inside = hybrid.open_(secret, rest, pack(_OUTER, header, outer_head))
        inner_head, sealed = unpack(inside, 2)
        secret = cpabe.decapsulate(user_key, decode_cp_ciphertext(inner_head))
    except DecodeError:
        raise DecryptionError(_MISMATCH) from None
    return hybrid.open_(secret, sealed, pack(_INNER, header, inner_head))
