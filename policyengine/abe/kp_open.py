"""The whole way of one event, from expression and values to the payload in clear."""

from __future__ import annotations

from policyengine.abe.kp_model import KpMode
from policyengine.abe.kp_wire import (
    decode_ciphertext,
    decode_filter_key,
    encode_ciphertext,
    encode_filter_key,
)
from policyengine.abe.kpabe import decapsulate, encapsulate, keygen, public_key, setup
from policyengine.attributes.syntax import Expression
from policyengine.attributes.types import Schema, Value
from policyengine.attributes.universe import Ranges, access_tree, elements_of
from policyengine.primitives.aead import open_, seal
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource


def kpabe_open(
    expression: Expression,
    values: dict[str, Value],
    schema: Schema,
    payload: bytes,
    *,
    mode: KpMode = "hash",
    ranges: Ranges = "dyadic",
    random: RandomSource = SYSTEM_RANDOM,
) -> bytes:
    """Encrypt a payload for an event and open it with a filter's key, all under fresh keys.

    The filter's key and the ciphertext pass through their bytes, as they do between real
    parties. The publisher's part knows nothing of the filter.

    Args:
        expression: the subscriber's filter, typed.
        values: the event's checked values.
        schema: the attributes of the event's type.
        payload: what is sealed.
        mode: `hash` or `polynomial`; the latter's key is made for as many elements as the
            event has.
        ranges: how numbers become elements.
        random: source of all keys.

    Returns:
        The payload.

    Raises:
        DecryptionError: the filter does not hold for the event.
        InputError: `unsupported` for a negated test of an open string in mode `polynomial`,
            and as `setup`, `access_tree` and `elements_of` do.
    """
    tree = access_tree(expression, schema, ranges=ranges)
    elements = elements_of(values, schema, ranges=ranges)
    master = setup(mode, elements=len(elements), random=random)
    key = encode_filter_key(keygen(master, tree, random))
    public = public_key(master)
    secret, ciphertext = encapsulate(public, elements, random)
    sent = encode_ciphertext(ciphertext)
    sealed = seal(secret, payload, aad=sent, random=random)
    # Here publisher and broker end, and the subscriber begins.
    received = decapsulate(decode_filter_key(key), decode_ciphertext(sent))
    return open_(received, sealed, aad=sent)
