"""Rules by value at an agent: what it does is what the policies' text says, whoever tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adminapp.distribution.plan import (
    PlainPolicy,
    PlainRule,
    rules_for,
    subject_tokens,
)
from adminapp.policies import valuerules
from adminapp.policies.grants import Grant, advertising, grants, lowerings
from adminapp.policies.models import Policy
from brokers.data.admit import Admitted, admit
from brokers.data.match import grant, matched_rules
from brokers.snapshot import DomainSnapshot, build_epoch
from policyengine.anonset import Encoder, size_for, tag
from policyengine.attributes import Value, predicates_of, tokens_of
from policyengine.bundles import EncodedRule, EncodedSubject, EpochContent, PublicationPart
from policyengine.errors import RejectedError
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.property.test_policy_grants import (
    LANGUAGE,
    TYPES,
    WHAT,
    WHEN,
    WHO,
    above,
    events,
    holds,
    policy,
    subjects,
)

TAG_KEY, PROOF_KEY, PARAMETERS = b"t" * 32, b"p" * 32, size_for(12)
NAMES = {name: tuple(spec.name for spec in TYPES.attributes(name)) for name in TYPES.names}
SEEN = {name: frozenset({"a", "b", "c", "d"}) for name in TYPES.names}
Event = tuple[str, dict[str, Value]]


def rules(action: str, kind: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    otherwise = ["drop", "suppress", "withhold"]
    otherwise += ["super-type"] * 3 if action == "publish" else []
    about = st.fixed_dictionaries(
        {
            "attribute": st.sampled_from(NAMES[kind]),
            "when": st.sampled_from(WHEN),
            "otherwise": st.sampled_from(otherwise),
        }
    )
    whole = st.fixed_dictionaries(
        {
            "attribute": st.none(),
            "when": st.sampled_from(WHEN),
            "otherwise": st.sampled_from(otherwise[2:]),
        }
    )
    return st.lists(st.one_of(about, about, whole), max_size=4)


@st.composite
def domains(draw: st.DrawFn, action: str) -> list[Policy]:
    rows = []
    for number in range(draw(st.integers(1, 3))):
        # Types with something above and below them, so that there is a way up.
        kind = draw(st.sampled_from(["A", "B", "D"] * 2 + list(TYPES.names)))
        known = [text for text in WHAT if kind != "C" or "event.c" not in text]
        said = (
            f"({draw(st.sampled_from(WHO))}) && ({draw(st.sampled_from([*known, *['true'] * 5]))})"
        )
        listed = draw(st.none() | st.lists(st.sampled_from(["a", "b"]), unique=True))
        row = policy(number, action, kind, said, attributes=listed, rules=draw(rules(action, kind)))
        row.pk = number
        rows.append(row)
    return rows


# -- what an agent is given ------------------------------------------------------------------


def plain(found: Grant) -> PlainPolicy:
    return PlainPolicy(
        id=int(found.policy.pk), name=found.policy.name, action=found.policy.action,
        type=found.root, attributes=found.attributes, conjunctions=found.conjunctions,
        first=found.first, suppresses=found.suppresses, lowers=found.lowers,
    )  # fmt: skip


def compiled(rows: list[Policy], subject: dict[str, Value]) -> DomainSnapshot:
    advertised = advertising(rows, LANGUAGE, rows)
    found = [each for row in rows for each in grants(row, LANGUAGE, advertised)]
    found += [each for row in rows for each in lowerings(row, LANGUAGE, advertised)]
    policies = [plain(each) for each in found]
    made = rules_for(policies, [subject], SEEN)
    sides = [each.subject for one in policies for each in one.conjunctions]
    asked = frozenset(token for rule in made for token in rule.subject_tokens)
    tokens = subject_tokens(subject, predicates_of(sides, "subject."), asked)
    encoder = Encoder(b"e" * 32, PARAMETERS, random=SYSTEM_RANDOM)
    events_ = [each.event for one in policies for each in one.conjunctions]
    content = EpochContent(
        epoch=1, state="current", parameters=PARAMETERS.to_json(),
        rules=tuple(encoded(encoder, each) for each in made),
        subjects=(EncodedSubject("one", (encoder.encode_subject(tokens),)),),
        proof_key=PROOF_KEY,
        predicates=tuple(each.to_json() for each in predicates_of(events_, "event.")),
    )  # fmt: skip
    epoch = build_epoch(content, TYPES, list(TYPES.names))
    return DomainSnapshot(
        domain="d", revision=1, digest="0" * 64, agent="alpha", overlay="a", lease_seconds=30,
        notices_through=0, types=TYPES,
        specs={name: tuple(TYPES.attributes(name)) for name in TYPES.names},
        agents={}, clients={}, epochs={1: epoch}, attribute_keys={}, overlay_keys={},
    )  # fmt: skip


def encoded(encoder: Encoder, rule: PlainRule) -> EncodedRule:
    return EncodedRule(
        id=f"{rule.policy}.{rule.conjunction}.{'.'.join(rule.binding)}",
        policy=f"policy-{rule.policy}", action=rule.action, type=rule.type,
        event_tags=tuple(sorted(tag(TAG_KEY, each) for each in rule.event_tokens)),
        encoded=encoder.encode_policy(rule.subject_tokens), attributes=rule.attributes,
        suppresses=rule.suppresses, lowers=rule.lowers,
        proof=tuple(sorted(tag(PROOF_KEY, each) for each in rule.proof_tokens)),
    )  # fmt: skip


def tags(snapshot: DomainSnapshot, values: Mapping[str, Value]) -> tuple[bytes, ...]:
    """As an honest client makes them."""
    named = {f"event.{name}": value for name, value in values.items()}
    tokens = tokens_of(named, snapshot.epochs[1].predicates)
    return tuple(sorted(tag(TAG_KEY, each) for each in tokens))


def part(kind: str, values: Mapping[str, Value], tags_: tuple[bytes, ...]) -> PublicationPart:
    return PublicationPart(
        domain="d", publication="0" * 32, type=kind, publisher="one", part=0, parts=1,
        overlay="a", epoch=1, policy="0" * 64, issued=100, tags=tags_, attributes=values,
    )  # fmt: skip


def admitted(snapshot: DomainSnapshot, sent: PublicationPart) -> Admitted | None:
    try:
        return admit(snapshot, sent, now=100, oldest=0, tally=None)
    except RejectedError as error:
        if error.reason != "not-authorised":
            raise
        return None


# -- what the text says ----------------------------------------------------------------------


class Text:
    """Policies read as they are written, for one subject and one event."""

    def __init__(self, rows: list[Policy], subject: dict[str, Value], event: Event) -> None:
        self.subject, (self.kind, self.values) = subject, event
        self.rows = rows

    def says(self, text: str, row: Policy) -> bool:
        return holds(text, row.event_type.name, self.subject, self.values)

    def failing(self, row: Policy) -> list[valuerules.ValueRule]:
        return [
            rule
            for rule in valuerules.read(row)
            if rule.when
            and (rule.attribute is None or rule.attribute in self.values)
            and not self.says(rule.when, row)
        ]

    def about(self, kind: str) -> list[Policy]:
        return [
            row
            for row in self.rows
            if row.event_type.name in above(kind) and self.says(row.expression, row)
        ]

    def permitted(self, kind: str) -> tuple[set[str], set[str]] | None:
        """What may be had and whose place is kept, or None where nothing lets the event be."""
        found: set[str] | None = None
        kept: set[str] = set()
        for row in self.about(kind):
            failing = self.failing(row)
            if any(rule.otherwise in ("withhold", "super-type") for rule in failing):
                continue
            gone = {rule.attribute for rule in failing}
            found = (found or set()) | (self.named(row) - gone)
            kept |= {str(r.attribute) for r in valuerules.read(row) if r.otherwise == "suppress"}
        return None if found is None else (found, kept)

    def named(self, row: Policy) -> set[str]:
        if row.attributes is None:
            return {"a", "b", "c", "d"}
        return {*row.attributes, *(r.attribute for r in valuerules.read(row) if r.attribute)}

    def lowered(self) -> tuple[str, set[str], set[str]] | None:
        """What becomes of an event that may not be published as it is."""
        ways = []
        for row in self.about(self.kind):
            failing = self.failing(row)
            climbing = [rule for rule in failing if rule.otherwise == "super-type"]
            if climbing and not any(rule.otherwise == "withhold" for rule in failing):
                ways.append((row, {rule.attribute for rule in climbing}))
        for name in TYPES.ancestors(self.kind):
            found = self.permitted(name)
            if found and any(not wanted & set(NAMES[name]) for _, wanted in ways):
                return name, *found
        left = [
            self.named(row) - {r.attribute for r in valuerules.read(row)}
            for row, wanted in ways
            if None not in wanted
        ]
        left = [each for each in left if each]
        return (self.kind, set[str]().union(*left), set()) if left else None


@given(domains("publish"), events(), subjects(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_what_is_published_is_what_the_text_lets_be_written(
    rows: list[Policy], event: Event, subject: dict[str, Value], honest: bool
) -> None:
    kind, values = event
    snapshot = compiled(rows, subject)
    text = Text(rows, subject, event)
    known = text.permitted(kind)
    wanted = text.lowered() if known is None else (kind, *known)
    # A publisher that claims everything gets no further than one that tells the truth.
    claimed = {each for index in snapshot.epochs[1].rules.values() for each in index.tags}
    sent = part(kind, values, tags(snapshot, values) if honest else tuple(sorted(claimed)))
    found = admitted(snapshot, sent)
    if wanted is None:
        assert found is None
        return
    assert found is not None
    target, permitted, kept = wanted
    left = {name for name in values if name in permitted and name in NAMES[target]}
    assert (found.type, set(found.values)) == (target, left)
    assert set(found.dropped) == set(values) - left
    assert set(found.suppressed) == (set(values) - left) & kept & set(NAMES[target])


@given(domains("subscribe"), events(), subjects())
@settings(max_examples=60, deadline=None)
def test_what_is_read_is_what_the_text_lets_be_read(
    rows: list[Policy], event: Event, subject: dict[str, Value]
) -> None:
    kind, values = event
    snapshot = compiled(rows, subject)
    epoch = snapshot.epochs[1]
    known = Text(rows, subject, event).permitted(kind)
    found = matched_rules(epoch, "subscribe", kind, frozenset(tags(snapshot, values)))
    granted = grant(found, epoch, "one")
    if known is None:
        assert granted is None
        return
    assert granted is not None
    permitted, kept = known
    assert {name for name in values if granted.permits(name)} == permitted & set(values)
    hidden = {name for name in values if not granted.permits(name)}
    assert hidden & granted.suppresses == hidden & kept
