"""`anonset.match`: a policy and a subject as anonymous sets, matched without the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from policyengine.anonset import (
    ENCODINGS,
    Encoder,
    Encoding,
    Parameters,
    SubjectMatrix,
    length_for,
    match,
    size_for,
)
from policyengine.attributes import (
    Literal,
    Predicate,
    Schema,
    Value,
    check_values,
    conjunction_tokens,
    literal_token,
    normalise,
    predicates_of,
    tokens_of,
)
from policyengine.conformance.fields import Fields, expression_of, random_of, schema_of
from policyengine.errors import InputError

_KEY: Final = 32
_CHUNK_BYTES: Final = 2**24  # encodings held at a time
_MAX_ELEMENTS: Final = 1024
_BITS: Final = (8, 2**17)
_POSITIONS: Final = (1, 256)
_REFUSED: Final[dict[str, object]] = {"granted": False, "conjunction": None, "matched": []}


def answer_match(fields: Fields) -> dict[str, object]:
    """Encode, match, and name what matched."""
    encoding = cast(Encoding, fields.word("encoding", ENCODINGS))
    schema = schema_of(fields)
    policy = normalise(expression_of(fields, "policy", schema), schema)
    subjects = _subjects(fields, schema)
    predicates = predicates_of(policy, "")
    rules = [conjunction_tokens(terms) for terms in policy]
    tokens = [tokens_of(values, predicates) for values in subjects]
    parameters = _parameters(fields, encoding, max(map(len, rules + tokens), default=0))
    encoder = Encoder((random := random_of(fields)).token(_KEY), parameters, random=random)
    found = _first(encoder, parameters, rules, tokens)
    if found is None:
        return dict(_REFUSED)
    owners = _owners(subjects[found.subject], predicates)
    matched = sorted({owners[token] for token in found.tokens})
    return {"granted": True, "conjunction": found.subject, "matched": matched}


@dataclass(frozen=True, slots=True)
class _Found:
    subject: int
    tokens: tuple[str, ...]


def _first(
    encoder: Encoder,
    parameters: Parameters,
    rules: Sequence[tuple[str, ...]],
    tokens: Sequence[tuple[str, ...]],
) -> _Found | None:
    """Return the first conjunction of the subject that a rule grants, by its first such rule."""
    policies = encoder.encode_policies(rules)
    size = max(1, _CHUNK_BYTES // ((parameters.n + 1) * parameters.filter_bytes))
    for start in range(0, len(tokens), size):
        subjects = encoder.encode_subjects(tokens[start : start + size])
        matrix = SubjectMatrix(subjects, parameters)
        slots = [matrix.authorised(policy).find(True) for policy in policies]
        hits = [(slot, rule) for rule, slot in enumerate(slots) if slot >= 0]
        if hits:
            slot, rule = min(hits)
            result = match(policies[rule], subjects[slot], parameters)
            number = start + slot
            return _Found(number, encoder.matched_tokens(subjects[slot], tokens[number], result))
    return None


def _subjects(fields: Fields, schema: Schema) -> list[dict[str, Value]]:
    found: list[dict[str, Value]] = []
    for number, values in enumerate(fields.items("subject")):
        if not isinstance(values, dict):
            raise InputError(
                "type", f"the field `subject[{number}]` is no object", where=f"subject[{number}]"
            )
        found.append(check_values(values, schema))
    return found


def _parameters(fields: Fields, encoding: Encoding, most: int) -> Parameters:
    """Return an encoding into which every conjunction fits.

    Args:
        fields: `m` and `k` size the filters; tokens have one size only, so there they say
            nothing.
        encoding: which one.
        most: tokens of the longest conjunction.
    """
    # so many that a second element for each would not fit: then nobody gets one
    blind = 0.5 if encoding == "bloom" and length_for(most) <= _MAX_ELEMENTS else 0.0
    n = length_for(most, blind)
    if n > _MAX_ELEMENTS:
        raise InputError(
            "too-large",
            f"a conjunction has {most} predicates; expected at most {_MAX_ELEMENTS}",
        )
    m = fields.integer("m", *_BITS) if fields.has("m") else None
    k = fields.integer("k", *_POSITIONS) if fields.has("k") else None
    sized = size_for(n, encoding=encoding, blind_probability=blind)
    if encoding == "tokens":
        return sized
    return Parameters("bloom", n, m or sized.m, k or sized.k, sized.masks, blind)


def _owners(values: dict[str, Value], predicates: Sequence[Predicate]) -> dict[str, str]:
    """Return which attribute each token of a subject is about."""
    literals = [
        *predicates,
        *(Literal(name, "==", value) for name, value in values.items()),
        *(Literal(name, "has") for name in values),
    ]
    return {literal_token(literal): literal.attribute for literal in literals}
