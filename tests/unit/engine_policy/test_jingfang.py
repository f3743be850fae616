"""The paper's heating company: rules AP_A and AP_B, customers C1 and C2 (PS-ACF)."""

from __future__ import annotations

import pytest

from policyengine.anonset import Encoder, length_for, match, size_for, tags
from policyengine.attributes import (
    AttributeType,
    Conjunction,
    bind_joins,
    evaluate,
    literal_token,
    normalise,
    parse,
    predicates_of,
    tokens_of,
)
from policyengine.primitives.rand import SYSTEM_RANDOM

TEXT = AttributeType("string")
SCHEMA = {
    "subject.type": AttributeType("enum", values=("individual", "company")),
    "subject.consumer": TEXT,
    "subject.service": TEXT,
    "event.class": AttributeType("enum", values=("individual", "statistics")),
    "event.consumer": TEXT,
    "event.period": AttributeType("int", 0, 400),
}
AP_A = (
    'subject.type == "individual" && event.class == "individual"'
    " && subject.consumer == event.consumer"
)
AP_B = (
    'subject.type == "company" && subject.service == "datamining"'
    ' && event.class == "statistics" && event.period >= 30'
)
CUSTOMERS = {
    "C1 with X": {"subject.type": "individual", "subject.consumer": "X"},
    "C1 with Y": {"subject.type": "individual", "subject.consumer": "Y"},
    "C1 without consumer": {"subject.type": "individual"},
    "C2": {"subject.type": "company", "subject.service": "datamining"},
    "another company": {"subject.type": "company", "subject.service": "cleaning"},
}
EVENTS = {
    "A of X": {"event.class": "individual", "event.consumer": "X"},
    "A of Y": {"event.class": "individual", "event.consumer": "Y"},
    "B of a month": {"event.class": "statistics", "event.period": 31},
    "B of a day": {"event.class": "statistics", "event.period": 1},
}
EXPECTED = {
    ("C1 with X", "A of X"), ("C1 with Y", "A of Y"), ("C2", "B of a month"),
}  # fmt: skip


def conjunctions() -> list[Conjunction]:
    return [
        conjunction
        for text in (AP_A, AP_B)
        for conjunction in normalise(parse(text, SCHEMA, joins=True), SCHEMA)
    ]


def test_the_plain_rules_give_what_the_paper_says() -> None:
    granted = {
        (customer, event)
        for customer, subject in CUSTOMERS.items()
        for event, values in EVENTS.items()
        if any(evaluate(parse(text, SCHEMA, joins=True), subject | values) for text in (AP_A, AP_B))
    }
    assert granted == EXPECTED


@pytest.mark.parametrize("encoding", ["bloom", "tokens"])
def test_blinded_encoded_and_tagged_they_give_the_same(encoding: str) -> None:
    """Who is matched on encodings, what on tags: the agent sees neither."""
    rules = conjunctions()
    who_predicates = predicates_of(rules, "subject.")
    what_predicates = predicates_of(rules, "event.")
    held = {name: tokens_of(subject, who_predicates) for name, subject in CUSTOMERS.items()}
    parameters = size_for(
        length_for(max(map(len, held.values()))),
        encoding=encoding,  # type: ignore[arg-type]
    )
    encoder = Encoder(b"heating, agent alpha, epoch 1".ljust(32), parameters, random=SYSTEM_RANDOM)
    tag_key = b"overlay a, epoch 1".ljust(32)
    subjects = {name: encoder.encode_subject(tokens) for name, tokens in held.items()}
    sent = {
        name: tags(tag_key, tokens_of(values, what_predicates)) for name, values in EVENTS.items()
    }
    granted = set()
    for customer, subject in CUSTOMERS.items():
        for rule in rules:
            bound = bind_joins(rule, subject)
            if bound is None:
                continue
            every = [literal_token(literal) for literal in bound]
            who = encoder.encode_policy([one for one in every if one.startswith("subject.")])
            what = tags(tag_key, [one for one in every if one.startswith("event.")])
            if match(who, subjects[customer], parameters).granted:
                granted |= {(customer, event) for event, present in sent.items() if what <= present}
    assert granted == EXPECTED


def test_a_changed_rule_and_a_revoked_customer_are_encoded_anew() -> None:
    """Privacy management of the paper: authorisation update and customer revocation."""
    parameters = size_for(length_for(6))
    before = Encoder(b"epoch 1".ljust(32), parameters, random=SYSTEM_RANDOM)
    after = Encoder(b"epoch 2".ljust(32), parameters, random=SYSTEM_RANDOM)
    c2 = tokens_of(CUSTOMERS["C2"], [])
    rule = ['subject.type=="company"', 'subject.service=="datamining"']
    changed = ['subject.type=="company"', 'subject.service=="archive"']
    old = before.encode_subject(c2)
    assert match(before.encode_policy(rule), old, parameters).granted
    assert not match(before.encode_policy(changed), old, parameters).granted
    assert not match(after.encode_policy(rule), old, parameters).granted
    assert match(after.encode_policy(rule), after.encode_subject(c2), parameters).granted
