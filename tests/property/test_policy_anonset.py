"""Anonymous sets: both encodings answer the subset question, one by one and in bulk."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.anonset import (
    Encoder,
    Parameters,
    SubjectMatrix,
    encode_many,
    match,
    size_for,
    tag,
    tags,
)
from policyengine.attributes import (
    Expression,
    Value,
    conjunction_tokens,
    evaluate,
    normalise,
    predicates_of,
    tokens_of,
)
from policyengine.primitives.rand import SeededRandom
from tests.support.policy_strategies import SCHEMA, expressions, token_sets, values

KEY = bytes(range(32))
SIZES = [
    size_for(8),
    size_for(8, target_log2=40, masks=3),
    size_for(8, encoding="tokens"),
    size_for(8, encoding="tokens", blind_probability=0.5),
    Parameters("bloom", 8, 1201, 63, masks=0, blind_probability=0.0),
    Parameters("bloom", 8, 1201, 63, masks=2, blind_probability=1.0),
]
QUICK = settings(max_examples=60, deadline=None)


def encoder(parameters: Parameters, seed: bytes = b"seed") -> Encoder:
    return Encoder(KEY, parameters, random=SeededRandom(seed))


@QUICK
@given(st.sampled_from(SIZES), token_sets(), token_sets(), st.binary(min_size=1, max_size=8))
def test_match_is_the_plain_subset(
    parameters: Parameters, policy: list[str], subject: list[str], seed: bytes
) -> None:
    coder = encoder(parameters, seed)
    encoded = coder.encode_subject(subject)
    found = match(coder.encode_policy(policy), encoded, parameters)
    assert found.granted == (set(policy) <= set(subject))
    if found.granted:
        assert coder.matched_tokens(encoded, subject, found) == tuple(sorted(policy))
    else:
        assert found.indices == ()


@QUICK
@given(
    st.integers(1, 12),
    st.integers(8, 200),
    st.integers(1, 20),
    st.integers(0, 3),
    st.floats(0, 1),
    st.data(),
)
def test_no_size_however_bad_refuses_who_has_every_attribute(
    n: int, m: int, k: int, masks: int, probability: float, data: st.DataObject
) -> None:
    parameters = Parameters("bloom", 2 * n, m, k, masks, probability)
    universe = [f"token{number}" for number in range(n)]
    subject = data.draw(st.lists(st.sampled_from(universe), unique=True))
    policy = [token for token in subject if data.draw(st.booleans())]
    coder = encoder(parameters)
    encoded, asked = coder.encode_subject(subject), coder.encode_policy(policy)
    assert match(asked, encoded, parameters).granted
    assert SubjectMatrix([encoded], parameters).authorised(asked)[0]


@QUICK
@given(
    st.sampled_from(SIZES),
    st.lists(token_sets(), max_size=25),
    st.lists(token_sets(3), min_size=1, max_size=6),
    st.data(),
)
def test_bulk_answers_are_those_of_match_and_of_plain_sets(
    parameters: Parameters,
    subjects: list[list[str]],
    policies: list[list[str]],
    data: st.DataObject,
) -> None:
    coder = encoder(parameters)
    encoded = [coder.encode_subject(subject) for subject in subjects]
    first = data.draw(st.integers(0, len(encoded)))
    second = data.draw(st.integers(first, len(encoded)))
    matrix = SubjectMatrix(encoded[:first], parameters)
    matrix.extend(encoded[first:second])
    slots = [matrix.append(one) for one in encoded[second:]]
    assert slots == list(range(second, len(encoded)))
    gone = data.draw(st.sets(st.sampled_from(range(len(encoded))))) if encoded else set()
    for slot in gone:
        matrix.remove(slot)
    for policy in policies:
        asked = coder.encode_policy(policy)
        answers = list(matrix.authorised(asked))
        assert answers == [
            slot not in gone and set(policy) <= set(subject)
            for slot, subject in enumerate(subjects)
        ]
        assert answers == [
            slot not in gone and match(asked, one, parameters).granted
            for slot, one in enumerate(encoded)
        ]


@QUICK
@given(st.sampled_from(SIZES), st.lists(token_sets(), max_size=12), st.binary(min_size=1))
def test_many_at_a_time_are_the_same_bytes_as_one_by_one(
    parameters: Parameters, token_lists: list[list[str]], seed: bytes
) -> None:
    seed = seed[:64]
    for kind in ("subject", "policy"):
        one_by_one = encoder(parameters, seed)
        single = one_by_one.encode_subject if kind == "subject" else one_by_one.encode_policy
        many = encode_many(
            kind,  # type: ignore[arg-type]
            token_lists,
            KEY,
            parameters,
            random=SeededRandom(seed),
        )
        assert many == [single(tokens) for tokens in token_lists]


@QUICK
@given(expressions(6), st.lists(values(), min_size=1, max_size=5))
def test_encoded_policies_decide_as_the_expression_does(
    expression: Expression, subjects: list[dict[str, Value]]
) -> None:
    dnf = normalise(expression, SCHEMA)
    predicates = predicates_of(dnf, "")
    held = [tokens_of(subject, predicates) for subject in subjects]
    longest = max([1, *map(len, held), *map(len, dnf)])
    for name in ("bloom", "tokens"):
        parameters = Parameters.from_json(
            size_for(2 * longest, target_log2=40, encoding=name).to_json()  # type: ignore[arg-type]
        )
        coder = encoder(parameters)
        matrix = SubjectMatrix(coder.encode_subjects(held), parameters)
        granted = [False] * len(subjects)
        for conjunction in dnf:
            answers = matrix.authorised(coder.encode_policy(conjunction_tokens(conjunction)))
            granted = [before or bool(now) for before, now in zip(granted, answers, strict=True)]
        assert granted == [evaluate(expression, subject) for subject in subjects]


@QUICK
@given(token_sets(8), token_sets(8), st.binary(min_size=16, max_size=64))
def test_tags_are_a_subset_exactly_when_the_tokens_are(
    rule: list[str], event: list[str], key: bytes
) -> None:
    assert (tags(key, rule) <= tags(key, event)) == (set(rule) <= set(event))
    assert all(len(tag(key, token)) == 16 for token in rule)
    assert not tags(key, event) & tags(key + b"x" if len(key) < 64 else key[:-1], event)
