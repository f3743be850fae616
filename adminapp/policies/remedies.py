"""What a principal lacks for one way to satisfy a policy, and what would have to be done.

A remedy is a list of steps that a manager could take. It is tried out on the principal's standing
before it is offered: one that would not suffice is marked as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Any

from adminapp.catalog.mapping import SUBJECT
from adminapp.policies.access import literal_words, value_words
from adminapp.policies.language import PolicyConjunction
from adminapp.policies.standing import Ground, Guest, Held, Standing, Variant
from adminapp.roles.mapping import ROLE
from policyengine.attributes import AttributeType, Literal, Schema, Value
from policyengine.roles import Atom, Credential, Rule

_MUST = {
    "==": "must be",
    "!=": "must not be",
    "<": "must be below",
    "<=": "must be at most",
    ">": "must be above",
    ">=": "must be at least",
    "in": "must be one of",
    "!in": "must be none of",
    "startsWith": "must begin with",
    "!startsWith": "must not begin with",
    "endsWith": "must end with",
    "!endsWith": "must not end with",
    "has": "must be given",
    "!has": "must not be given",
}
_FAR = 1_000  # how bad a lack is that no step can mend
_VARIANTS = 8  # variants of a principal that are looked at


@dataclass(frozen=True)
class Step:
    """One thing to do.

    Args:
        kind: `appoint`, `end-appointment`, `activate`, `set-attribute`, `clear-attribute`,
            `enable-policy`, `begin-policy`, `extend-policy`, `list-attribute`, or `event` (the
            event itself would have to be another).
        name: of the appointment, attribute or policy.
        value: the attribute's value, or the appointment's parameters.
    """

    kind: str
    name: str
    value: Any = None

    @property
    def text(self) -> str:
        """The same for a person."""
        match self.kind:
            case "appoint":
                return f"appoint it to {_shown((self.name, tuple(self.value)))}"
            case "end-appointment":
                return f"end its appointment {_shown((self.name, tuple(self.value)))}"
            case "set-attribute":
                return f"set its attribute `{self.name}` to {value_words(self.value)}"
            case "clear-attribute":
                return f"take its attribute `{self.name}` away"
            case "activate":
                return f"let it activate role `{self.name}` in a session"
            case "enable-policy":
                return f"switch policy `{self.name}` on"
            case "begin-policy":
                return f"let policy `{self.name}` begin earlier"
            case "extend-policy":
                return f"let policy `{self.name}` end later"
            case "list-attribute":
                return f"add attribute `{self.value}` to policy `{self.name}`"
            case _:
                return f"an event whose `{self.name}` is {value_words(self.value)}"


@dataclass(frozen=True)
class Missing:
    """A condition that is not met.

    Args:
        kind: what sort of condition: `role`, `attribute`, `event`, `policy`, `revoked`, ...
        text: what is missing, in words.
        steps: what would have to be done; none where nothing helps.
    """

    kind: str
    text: str
    steps: tuple[Step, ...] = ()

    @property
    def weight(self) -> int:
        """How far away it is."""
        return max(1, len(self.steps)) if self.steps else _FAR


def lacking(
    standing: Standing,
    way: PolicyConjunction,
    schema: Schema,
    at: datetime,
    event: Mapping[str, Value] | None = None,
) -> tuple[Missing, ...]:
    """What a principal lacks for the subject's side of a conjunction; nothing where it meets it.

    Args:
        schema: types of `subject.*`.
        at: the moment.
        event: values of one event by full name, which joins are then held against.
    """
    wanted = _wanted(way, event)
    if any(all(each.holds(variant) for each in wanted) for variant in standing.variants):
        return ()
    if not standing.variants and not isinstance(standing, Guest):
        text = "its roles can be combined in too many ways, so that no policy permits it anything"
        return (Missing("role", text),)
    found = [
        _for_variant(standing, wanted, schema, at, variant)
        for variant in standing.variants[:_VARIANTS] or ({},)
    ]
    return min(found, key=lambda each: sum(missing.weight for missing in each))


def mended(standing: Standing, missing: Iterable[Missing]) -> Standing:
    """What a principal has once the steps are taken."""
    steps = [step for each in missing for step in each.steps]
    return standing.changed(
        given=[(s.name, s.value) for s in steps if s.kind == "appoint"],
        ended=[(s.name, s.value) for s in steps if s.kind == "end-appointment"],
        attributes={f"{SUBJECT}{s.name}": s.value for s in steps if s.kind == "set-attribute"},
        cleared=[f"{SUBJECT}{s.name}" for s in steps if s.kind == "clear-attribute"],
    )


def _wanted(way: PolicyConjunction, event: Mapping[str, Value] | None) -> list[Literal]:
    """Everything that a way asks of the subject, what joins mean for it included."""
    found = list(way.subject)
    for join in way.joins:
        if event is not None and join.right in event:
            found.append(Literal(join.left, "==", event[join.right]))
            continue
        found.append(Literal(join.left, "has"))
        about = (each for each in way.event if each.attribute == join.right)
        found += [Literal(join.left, each.op, each.value) for each in about]
    return list(dict.fromkeys(found))


def _for_variant(
    standing: Standing,
    wanted: Sequence[Literal],
    schema: Schema,
    at: datetime,
    variant: Variant,
) -> tuple[Missing, ...]:
    found: list[Missing] = []
    seen: set[str] = set()
    for literal in wanted:
        subject = _subject_of(literal)
        if literal.holds(variant) or subject in seen:
            continue
        seen.add(subject)
        about = [each for each in wanted if _subject_of(each) == subject]
        if subject.startswith(f"{ROLE}."):
            found.append(_role(standing, subject.removeprefix(f"{ROLE}."), about, at))
        else:
            found.append(_attribute(subject, about, schema.get(subject), variant))
    return tuple(found)


def _subject_of(literal: Literal) -> str:
    """What a literal is about: a role with all its parameters, or an attribute."""
    if not literal.attribute.startswith(f"{ROLE}."):
        return literal.attribute
    return f"{ROLE}.{literal.attribute.removeprefix(f'{ROLE}.').partition('.')[0]}"


# -- attributes ------------------------------------------------------------------------------


def _attribute(
    name: str, literals: Sequence[Literal], declared: AttributeType | None, variant: Variant
) -> Missing:
    own = name.removeprefix(SUBJECT)
    failing = next(each for each in literals if not each.holds(variant))
    text = must(failing, variant.get(name))
    if any(each.op == "!has" for each in literals):
        return Missing("attribute", text, (Step("clear-attribute", own),))
    value = None if declared is None else fitting(literals, declared)
    steps = () if value is None else (Step("set-attribute", own, value),)
    return Missing("attribute", text, steps)


def must(literal: Literal, value: Value | None) -> str:
    """A literal that does not hold, in words: "`subject.carrier` must be UA, and is DL"."""
    name = f"`{literal.attribute}`"
    rest = literal_words(literal).partition(" ")[2]
    wanted = _MUST[literal.op]
    if literal.value is not None:
        wanted = f"{wanted} {rest[len(_is(literal)) :].strip()}"
    there = "is not given" if value is None else f"is {value_words(value)}"
    return f"{name} {wanted}, and {there}"


def _is(literal: Literal) -> str:
    """The verb that `literal_words` uses."""
    return literal_words(Literal("x", literal.op)).partition(" ")[2]


def fitting(literals: Sequence[Literal], declared: AttributeType) -> Value | None:
    """A value of a type that meets some tests; None where none is found."""
    for value in _candidates(literals, declared):
        if declared.admits(value) and all(each.holds({each.attribute: value}) for each in literals):
            return value
    return None


def _candidates(literals: Sequence[Literal], declared: AttributeType) -> list[Any]:
    named: list[Any] = []
    for each in literals:
        named += each.value if isinstance(each.value, tuple) else [each.value]
    named = [value for value in named if value is not None]
    if declared.kind == "enum":
        return list(declared.values)
    if declared.kind == "bool":
        return [True, False]
    if declared.kind == "string":
        heads = [e.value for e in literals if e.op == "startsWith"] or [""]
        tails = [e.value for e in literals if e.op == "endsWith"] or [""]
        joined = [f"{h}{m}{t}" for h, t, m in product(heads, tails, ("", "x", "other", "y"))]
        return [*(value for value in named if isinstance(value, str)), *joined]
    step = declared.step or 1
    base = declared.minimum if declared.minimum is not None else 0
    near = [base, declared.maximum, 0, *named]
    found = []
    for value in near:
        if isinstance(value, int | float) and not isinstance(value, bool):
            aligned = base + round((value - base) / step) * step
            found += [value, aligned, aligned + step, aligned - step]
            if declared.kind == "float" and declared.step is None:
                found += [value + 0.5, value - 0.5]
    kind: Any = int if declared.kind == "int" else float
    return [kind(value) for value in found if declared.kind == "float" or value == int(value)]


# -- roles -----------------------------------------------------------------------------------


def _role(standing: Standing, role: str, literals: Sequence[Literal], at: datetime) -> Missing:
    if any(each.op == "!has" and each.attribute == f"{ROLE}.{role}" for each in literals):
        return _unwanted(standing, role)
    prefix = f"{ROLE}.{role}."
    tied = {
        each.attribute.removeprefix(prefix): each
        for each in literals
        if each.attribute.startswith(prefix)
    }
    declared = standing.rules.declared.get(role, ())
    terms: tuple[Any, ...] = tuple(
        tied[each.name].value if each.name in tied and tied[each.name].op == "==" else None
        for each in declared
    )
    if standing.sessions is not None and not tied:
        idle = next((own for own in standing.meant(role) if (own, ()) in standing.possible), None)
        if idle is not None:
            text = f"role `{idle}` could be active, and is in no open session"
            return Missing("session", text, (Step("activate", idle),))
    asked = "".join(f", {literal_words(each).removeprefix(prefix)}" for each in tied.values())
    options = [
        _rule_lacks(standing, rule, terms, at, depth=0)
        for own in standing.meant(role)
        for rule in standing.rules.by_role.get(own, ())
    ]
    there = _active(standing, role)
    state = f"is active as {_shown(there[0])} only" if there else "is missing"
    if not options:
        return Missing("role", f"role `{role}`{asked} {state}: no rule activates it")
    best = min(options, key=lambda each: sum(leaf.weight for leaf in each))
    why = " and ".join(leaf.text for leaf in best)
    steps = tuple(step for leaf in best for step in leaf.steps)
    complete = all(leaf.steps for leaf in best)
    return Missing("role", f"role `{role}`{asked} {state}: {why}", steps if complete else ())


def _rule_lacks(
    standing: Standing, rule: Rule, terms: Sequence[Any], at: datetime, depth: int
) -> list[Missing]:
    """What a rule asks for that is not there."""
    known: dict[str, Any] = {}
    for term, value in zip(rule.role.terms, terms, strict=False):
        if value is not None and hasattr(term, "name"):
            known[term.name] = value
    found: list[Missing] = []
    for each in rule.credentials:
        if _there(standing, each, known):
            continue
        atom = each.atom.bound(known) if set(each.atom.variables) <= known.keys() else each.atom
        if each.kind == "appointment":
            found.append(_appointment(standing, atom, at))
        else:
            found += _prerequisite(standing, atom, at, depth + 1)
    for constraint in rule.constraints:
        if set(constraint.variables) <= known.keys():
            problem = constraint.problem(standing.environment, known)
            if problem is not None:
                found.append(
                    Missing("constraint", f"constraint `{constraint.text}` is not met: {problem}")
                )
    return found or [Missing("constraint", "its rules are met by nothing that is there together")]


def _there(standing: Standing, wanted: Credential, known: Mapping[str, Any]) -> bool:
    pool = standing.active if wanted.kind == "role" else standing.held
    return any(
        name == wanted.atom.name
        and len(terms) == len(wanted.atom.terms)
        and wanted.atom.match(Atom(name, terms), known) is not None
        for name, terms in pool
    )


def _prerequisite(standing: Standing, atom: Atom, at: datetime, depth: int) -> list[Missing]:
    terms = [None if hasattr(term, "name") else term for term in atom.terms]
    options = [
        _rule_lacks(standing, rule, terms, at, depth)
        for rule in standing.rules.by_role.get(atom.name, ())
    ]
    if not options:
        return [Missing("role", f"role `{atom.text}` has no rule that activates it")]
    return min(options, key=lambda each: sum(leaf.weight for leaf in each))


def _appointment(standing: Standing, atom: Atom, at: datetime) -> Missing:
    """An appointment that is not held: whether it was, or will be, or never."""
    known = [
        each
        for each in standing.appointments
        if each.ground[0] == atom.name
        and len(each.ground[1]) == len(atom.terms)
        and atom.match(Atom(atom.name, tuple(each.ground[1])), {}) is not None
    ]
    over = [each for each in known if each.ends is not None and each.ends <= at]
    coming = [each for each in known if each.starts > at and (each.ends is None or each.ends > at)]
    if coming:
        first = min(coming, key=lambda each: each.starts)
        state = f"begins on {day(first.starts)}"
    elif over:
        state = f"ended on {day(max(each.ends for each in over if each.ends))}"
    else:
        state = "was never given"
    grounds: list[Held] = [*coming, *over]
    terms: tuple[Any, ...] | None = grounds[0].ground[1] if grounds else tuple(atom.terms)
    if terms is not None and any(hasattr(term, "name") for term in terms):
        terms = None  # nobody can tell which one
    steps = () if terms is None else (Step("appoint", atom.name, terms),)
    return Missing("appointment", f"appointment `{atom.text}` {state}", steps)


def _unwanted(standing: Standing, role: str) -> Missing:
    """A role that must not be active: which appointments would have to end."""
    ended: list[Ground] = []
    now = standing
    reason = ""
    while True:
        active = _active(now, role)
        if not active:
            break
        proof = now.proof(active[0])
        leaves = [] if proof is None else list(proof.leaves())
        reason = reason or (f" by appointment {_shown(leaves[0])}" if leaves else "")
        if not leaves:
            return Missing("role", f"role `{role}` must not be active, and everybody has it")
        ended.append(leaves[0])
        now = now.changed(ended=[leaves[0]])
    steps = tuple(Step("end-appointment", name, tuple(terms)) for name, terms in ended)
    return Missing("role", f"role `{role}` must not be active, and is{reason}", steps)


def _active(standing: Standing, role: str) -> list[Ground]:
    """How a role is active, by the principal's own roles."""
    meant = standing.meant(role)
    return sorted((ground for ground in standing.active if ground[0] in meant), key=repr)


def _shown(ground: Ground) -> str:
    return f"`{Atom(ground[0], tuple(ground[1])).text}`"


def day(moment: datetime) -> str:
    """A moment as people say it: `3 May 2026, 10:00 UTC`."""
    local = moment.astimezone(UTC)
    return f"{local.day} {local:%B %Y}, {local:%H:%M} UTC"
