"""Matching: the agent's side, without any key (PS-ACF Def. 7, corrected)."""

from __future__ import annotations

from dataclasses import dataclass

from policyengine.anonset.parameters import Parameters
from policyengine.anonset.wire import (
    decode_bloom_policy,
    decode_bloom_subject,
    decode_token_policy,
    decode_token_subject,
)


@dataclass(frozen=True, slots=True)
class Match:
    """What came of one policy and one subject.

    Args:
        granted: whether the subject has all that the policy asks for.
        indices: places of the subject's elements, from 0, that the policy asks
            for; only the holder of the key knows which attributes they are.
    """

    granted: bool
    indices: tuple[int, ...] = ()


def match(policy: bytes, subject: bytes, parameters: Parameters) -> Match:
    """Match one encoded conjunction of a policy with one of a subject.

    Never refuses a subject that has all attributes of the policy; grants one that
    has not with the probability of `false_positive`.

    Args:
        policy: what `Encoder.encode_policy` made.
        subject: what `Encoder.encode_subject` made under the same key.
        parameters: their encoding.

    Raises:
        DecodeError: one of them is not an encoding of these parameters.
    """
    if parameters.encoding == "tokens":
        return _match_tokens(policy, subject, parameters)
    required = decode_bloom_policy(policy, parameters).required
    filters = decode_bloom_subject(subject, parameters)
    # Def. 7, step 2, tests BF_t (the paper writes BF_i). With R = BF_a AND NOT BF_a-m,
    # `BF_a AND (BF_a-m OR BF) = BF_a` is `R AND NOT BF = 0`.
    if required & ~filters.whole:
        return Match(granted=False)
    # Step 3: BF_i holds everything but element n - i. If the policy is still satisfied
    # without it, it is not among the matched. A false hit drops an index.
    n = parameters.n
    dropped = {
        n - number
        for number, without in enumerate(filters.auxiliary, start=1)
        if not required & ~without
    }
    return Match(granted=True, indices=tuple(at for at in range(n) if at not in dropped))


def _match_tokens(policy: bytes, subject: bytes, parameters: Parameters) -> Match:
    wanted = set(decode_token_policy(policy, parameters))
    present = decode_token_subject(subject, parameters)
    if not wanted.issubset(present):
        return Match(granted=False)
    return Match(
        granted=True, indices=tuple(at for at, token in enumerate(present) if token in wanted)
    )
