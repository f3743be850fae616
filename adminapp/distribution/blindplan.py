"""Who may read which hidden attribute, and by which tokens: pure, without rows or keys.

Clients hide attributes from agents. Each value is sealed for whom the policies in force let
read it: a policy's subject side becomes tokens of reading keys (paper 001, section 5.2), and its
event side is met by the publisher, who knows the values, so that a rule by value which no blind
agent could check becomes part of the policy that the value is sealed under.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from adminapp.catalog.mapping import EVENT, SUBJECT
from adminapp.distribution.plan import (
    PlainDomain,
    PlainPolicy,
    PlainSubject,
    published_types,
    subject_conjunctions,
)
from adminapp.policies.language import PolicyConjunction
from policyengine.attributes import Literal, Predicate, literal_token, predicates_of
from policyengine.blind import MAX_VARIANTS
from policyengine.bundles import ReadTerm
from policyengine.events import AttributeSpec, EventTypes, TypeSpec

Variants = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class BlindPlan:
    """What a domain's hidden attributes ask for.

    Args:
        domain: the domain in plain.
    """

    domain: PlainDomain = field(repr=False)

    @cached_property
    def types(self) -> EventTypes:
        """The types as bundles have them."""
        return EventTypes([TypeSpec.from_json(spec) for spec in self.domain.types])

    @cached_property
    def hidden(self) -> Mapping[str, tuple[AttributeSpec, ...]]:
        """Event type -> attributes that clients hide; types without any are left out."""
        found = {
            name: tuple(spec for spec in self.types.attributes(name) if spec.blind)
            for name in self.types.names
        }
        return {name: specs for name, specs in found.items() if specs}

    @property
    def any(self) -> bool:
        """Whether the domain has need of a blind epoch."""
        return bool(self.hidden)

    @cached_property
    def terms(self) -> Mapping[str, Mapping[str, tuple[ReadTerm, ...]]]:
        """Event type -> sealed attribute -> the ways to be allowed to read it.

        Guests have no keys of this domain, so what agreements let through reads nothing here.
        """
        found: dict[str, dict[str, tuple[ReadTerm, ...]]] = {}
        made: dict[PolicyConjunction, ReadTerm] = {}
        for name, specs in self.hidden.items():
            line = {name, *self.types.ancestors(name)}
            about = [policy for policy in self._reading if policy.type in line]
            found[name] = {
                spec.name: _distinct(
                    _term(each, made)
                    for policy in about
                    if policy.attributes is None or spec.name in policy.attributes
                    for each in policy.conjunctions
                )
                for spec in specs
                if spec.sealed
            }
        return found

    @cached_property
    def readers(self) -> Mapping[str, Variants]:
        """Handle -> the tokens of each variant that the client reads by.

        Everybody concerned is there: who may publish a type with hidden attributes, and who may
        receive one. Of two variants the tokens never stand together.
        """
        return {
            subject.handle: self._variants(subject)
            for subject in self.domain.subjects
            if subject.homes and not subject.agreements and self._concerned(subject)
        }

    def read_policies(self, subject: PlainSubject) -> dict[str, dict[str, tuple[ReadTerm, ...]]]:
        """For whom a client seals what it may publish."""
        return {
            name: dict(self.terms[name])
            for name in self._published(subject)
            if self.terms.get(name)
        }

    def ways(self, subject: PlainSubject, name: str, attribute: str) -> Variants:
        """By which tokens a client may read a hidden attribute of a type.

        A rule that compares an attribute of the reader with one of the event asks of this reader
        for the value that it has. What it lacks something for is left out.
        """
        held = [set(tokens) for tokens in self.readers.get(subject.handle, ())]
        found = {
            tuple(sorted({*term.subject, *own}))
            for term in self.terms.get(name, {}).get(attribute, ())
            for own in _compared(term, subject)
        }
        return tuple(sorted(way for way in found if any(set(way) <= each for each in held)))

    def told(self, subject: PlainSubject, published: Iterable[str]) -> tuple[Literal, ...]:
        """What else a publisher of these types must test events for: equality and presence.

        Of what is hidden tags tell what policies ask for and no more, so that agents cannot see
        by them that two events agree. An attribute that is compared with one of a *reader's* is
        told where a term says so (`ReadTerm.joins`).
        """
        families = self.domain.families
        kin = frozenset(name for kind in published for name in families.get(kind, ()))
        hidden = {f"{EVENT}{spec.name}" for kind in kin for spec in self.hidden.get(kind, ())}
        found: dict[str, Literal] = {}
        for policy in self.domain.policies if hidden else ():
            for each in policy.conjunctions if policy.type in kin else ():
                own = () if policy.action == "subscribe" else _own(each, subject)
                found |= {
                    literal_token(test): test
                    for test in (*each.event, *own)
                    if test.attribute in hidden and test.op in ("==", "has")
                }
        return tuple(found[token] for token in sorted(found))

    def ordered(self, subject: PlainSubject) -> tuple[tuple[str, str], ...]:
        """Order-preserving attributes that a client needs the keys of: (declaring type, name)."""
        kinds = {*self._published(subject), *self._received(subject)}
        return tuple(sorted({pair for name in kinds for pair in self.order_pairs(name)}))

    @cached_property
    def every_ordered(self) -> tuple[tuple[str, str], ...]:
        """All order-preserving attributes, for comparators: (declaring type, name)."""
        return tuple(sorted({pair for name in self.hidden for pair in self.order_pairs(name)}))

    def order_pairs(self, name: str) -> list[tuple[str, str]]:
        """The order-preserving attributes of a type, each with the type that declares it."""
        return [
            (self._declaring(name, spec.name), spec.name)
            for spec in self.hidden.get(name, ())
            if spec.blind == "order-preserving"
        ]

    def _declaring(self, name: str, attribute: str) -> str:
        line = (name, *self.types.ancestors(name))
        return next(
            each
            for each in reversed(line)
            if any(spec.name == attribute for spec in self.types.attributes(each))
        )

    @cached_property
    def _reading(self) -> tuple[PlainPolicy, ...]:
        return tuple(
            policy
            for policy in self.domain.policies
            if policy.action == "subscribe" and policy.agreement is None
        )

    @cached_property
    def _concerning(self) -> tuple[tuple[PlainPolicy, frozenset[str]], ...]:
        """Policies for locals to publish or receive, each with the types with hidden attributes
        of its sub-tree.
        """
        found = [
            (policy, frozenset(self._below(policy.type)))
            for policy in self.domain.policies
            if policy.agreement is None
        ]
        return tuple((policy, names) for policy, names in found if names)

    def _below(self, root: str) -> list[str]:
        if root not in self.types.names:
            return []
        return [name for name in self.types.subtree(root) if name in self.hidden]

    def _concerned(self, subject: PlainSubject) -> bool:
        return any(_permits(policy, subject) for policy, _ in self._concerning)

    def _published(self, subject: PlainSubject) -> tuple[str, ...]:
        roots = published_types(self.domain, subject)
        return tuple(sorted({name for root in roots for name in self._below(root)}))

    def _received(self, subject: PlainSubject) -> frozenset[str]:
        return frozenset(
            name
            for policy, names in self._concerning
            if policy.action == "subscribe" and _permits(policy, subject)
            for name in names
        )

    @cached_property
    def _asked(self) -> tuple[frozenset[str], frozenset[str], tuple[Predicate, ...]]:
        """Tokens that some term asks for, names that are joined, and what to test subjects for."""
        terms = [
            term for by_name in self.terms.values() for each in by_name.values() for term in each
        ]
        tokens = frozenset(token for term in terms for token in term.subject)
        joined = frozenset(left for term in terms for left, _ in term.joins)
        sides = [each.subject for policy in self._reading for each in policy.conjunctions]
        return tokens, joined, predicates_of(sides, SUBJECT)

    def _variants(self, subject: PlainSubject) -> Variants:
        tokens, joined, predicates = self._asked
        own = {
            literal_token(Literal(name, "==", values[name]))
            for values in subject.variants
            for name in joined
            if name in values
        }
        found = subject_conjunctions(subject.variants, predicates, tokens | own)
        return found[:MAX_VARIANTS]


def _permits(policy: PlainPolicy, subject: PlainSubject) -> bool:
    return any(
        each.for_subject(values) is not None
        for each in policy.conjunctions
        for values in subject.variants
    )


def _own(each: PolicyConjunction, subject: PlainSubject) -> list[Literal]:
    return [
        Literal(join.right, "==", values[join.left])
        for join in each.joins
        for values in subject.variants
        if join.left in values
    ]


def _compared(term: ReadTerm, subject: PlainSubject) -> list[set[str]]:
    """What a term's comparisons ask of each variant of a reader that can be compared."""
    return [
        {literal_token(Literal(left, "==", values[left])) for left, _ in term.joins}
        for values in subject.variants
        if all(left in values for left, _ in term.joins)
    ]


def _term(each: PolicyConjunction, made: dict[PolicyConjunction, ReadTerm]) -> ReadTerm:
    if each not in made:
        made[each] = ReadTerm(
            subject=tuple(sorted({literal_token(literal) for literal in each.subject})),
            event=tuple(literal.to_json() for literal in each.event),
            joins=tuple((join.left, join.right) for join in each.joins),
        )
    return made[each]


def _distinct(terms: Iterable[ReadTerm]) -> tuple[ReadTerm, ...]:
    found: dict[tuple[object, ...], ReadTerm] = {}
    for term in terms:
        tests = tuple(sorted(str(test) for test in term.event))
        found.setdefault((term.subject, tests, tuple(sorted(term.joins))), term)
    return tuple(found[key] for key in sorted(found))
