"""Whether what policies ask for can be encoded at all."""

from __future__ import annotations

from collections.abc import Iterator

from adminapp.catalog.mapping import SUBJECT
from adminapp.core.errors import Problem
from adminapp.distribution import epochs
from adminapp.distribution.gather import plain_policies
from adminapp.distribution.plan import rules_for, subject_tokens
from adminapp.identity.models import Domain
from adminapp.policies import selectors as policies
from policyengine.attributes import predicates_of
from policyengine.errors import InputError


def conjunctions(domain: Domain) -> Iterator[Problem]:
    """Policies and principals whose conjunctions are longer than the largest epoch has room for.

    Without this they would grant nothing, and nobody would be told.
    """
    try:
        spoken = policies.language(domain)
        subjects = policies.subjects(domain)
    except InputError:
        return  # another check says what is wrong with the model
    plain = plain_policies(domain, spoken)
    rules = rules_for(plain, [subject.values for subject in subjects])
    most = epochs.most_tokens(domain)
    names = {policy.id: policy.name for policy in plain}
    for policy in sorted({rule.policy for rule in rules if len(rule.subject_tokens) > most}):
        message = f"policy `{names[policy]}` tests the subject more than {most} times at once"
        yield Problem("/expression", message, "too-large")
    asked = frozenset(token for rule in rules for token in rule.subject_tokens)
    predicates = predicates_of(
        [each.subject for policy in plain for each in policy.conjunctions], SUBJECT
    )
    long = {
        subject.principal
        for subject in subjects
        if len(subject_tokens(subject.values, predicates, asked)) > most
    }
    for name in sorted(long):
        yield Problem("", f"policies test `{name}` for more than {most} things", "too-large")
