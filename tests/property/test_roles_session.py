"""Sessions against a naive oracle that enumerates every grounding and re-checks everything."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from hypothesis import event, given, settings
from hypothesis import strategies as st

from policyengine.roles import Activation, RolePolicy, Session, run_session
from policyengine.roles.rules import Bound, Credential, Ground

CONSTANTS: list[Any] = [1, "anna"]
VARIABLES = ["x", "y", "z"]
ROLES = {"r0": 1, "r1": 1, "r2": 2, "r3": 0}
APPOINTMENTS = {"a0": 1, "a1": 2}
QUICK = settings(max_examples=40, deadline=None)
LONG = settings(max_examples=150, deadline=None)

Fact: TypeAlias = tuple[str, tuple[Any, ...]]
Env: TypeAlias = Mapping[str, Any]

# Text, variables, and its meaning written anew. A value that was never set meets nothing.
CONSTRAINTS: list[tuple[str, str, Callable[[Env, Mapping[str, Any]], bool]]] = [
    ("env.h >= 9", "", lambda env, _: "h" in env and env["h"] >= 9),
    ("!(env.h >= 9)", "", lambda env, _: "h" in env and env["h"] < 9),
    ("env.on", "", lambda env, _: env.get("on") is True),
    (
        "env.on || env.h == 2",
        "",
        lambda env, _: set(env) >= {"on", "h"} and (env["on"] or env["h"] == 2),
    ),
    ("x != 2", "x", lambda _, b: b["x"] == 1),  # the text "anna" is no number: not met
    ("env.h == x", "x", lambda env, b: "h" in env and env["h"] == b["x"]),
    ("x == y", "xy", lambda _, b: b["x"] == b["y"]),
    ("y in [1, 2]", "y", lambda _, b: b["y"] in (1, 2)),
]
MEANING = {text: meaning for text, _, meaning in CONSTRAINTS}


def written(fact: Fact) -> str:
    name, terms = fact
    return f"{name}({', '.join(map(str, terms))})" if terms else name


def pattern(random: Random, names: Mapping[str, int], letters: str) -> Fact:
    name = random.choice(sorted(names))
    terms = [*letters * 3, *CONSTANTS]
    return name, tuple(random.choice(terms) for _ in range(names[name]))


def facts(names: Mapping[str, int]) -> st.SearchStrategy[Fact]:
    every = [
        (name, terms)
        for name, size in sorted(names.items())
        for terms in itertools.product(CONSTANTS, repeat=size)
    ]
    return st.sampled_from(every)


def one_rule(random: Random, role: str) -> dict[str, Any]:
    """A rule that mostly asks for what earlier roles are, so that chains are long."""
    head = role, tuple(random.choice(["x", "x", "y", *CONSTANTS]) for _ in range(ROLES[role]))
    earlier = {name: size for name, size in ROLES.items() if name < role}
    below = earlier if earlier and random.random() < 0.9 else ROLES
    letters = "xxyz"
    needs = [pattern(random, below, letters) for _ in range(random.choice([0, 1, 1, 2]))]
    if role == "r0" and random.random() < 0.8:
        needs = []
    appointed = [
        pattern(random, APPOINTMENTS, letters) for _ in range(random.choice([0, 0, 1, 1, 2]))
    ]
    bound = {term for _, terms in [head, *needs, *appointed] for term in terms}
    usable = [text for text, names, _ in CONSTRAINTS if bound >= set(names)]
    lists = {
        "prerequisites": [written(each) for each in needs],
        "appointments": [written(each) for each in appointed],
        "constraints": random.choices(usable, k=random.choice([0, 0, 1])),
    }
    conditions = [text for texts in lists.values() for text in texts]
    membership = [text for text in conditions if random.random() < 0.8]
    return {"role": written(head), **lists, "membership": membership}


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    random = draw(st.randoms(use_true_random=True))
    rules = [one_rule(random, role) for role in ROLES for _ in range(random.choice([1, 2, 2]))]
    random.shuffle(rules)
    return {"rules": rules}


POLICIES = policies()
ROLE_FACTS = [
    (name, terms)
    for name, size in ROLES.items()
    for terms in itertools.product(CONSTANTS, repeat=size)
]
SWEEP = [("activate", fact) for fact in ROLE_FACTS]
APPOINTMENT_FACTS = [
    (name, terms)
    for name, size in APPOINTMENTS.items()
    for terms in itertools.product(CONSTANTS, repeat=size)
]


def appoint_step(random: Random) -> tuple[Any, ...]:
    starts, length = random.choice([0, 1, 1, 1, 3]), random.choice([None, None, 1, 2, 3])
    issuer = random.choice(["", "", "boss"])
    return ("appoint", random.choice(APPOINTMENT_FACTS), issuer, starts, length)


def set_step(random: Random) -> tuple[Any, ...]:
    values = {"h": [1, 2, 9, 9, None], "on": [True, True, False, None]}
    return ("set", {name: random.choice(values[name]) for name in random.sample(["h", "on"], 1)})


def change(random: Random) -> list[Any]:
    fact = random.choice(ROLE_FACTS)
    appointment = random.choice(APPOINTMENT_FACTS)
    ways: list[list[Any]] = [
        [("activate", fact)],
        SWEEP,
        [("deactivate", fact)],
        [appoint_step(random)],
        [("revoke", appointment, random.choice([None, "", "boss"]))],
        [set_step(random)],
        [("wait", random.randrange(4))],
    ]
    return random.choice(ways)


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    """Steps that begin with much that is held and everything tried, so that much is active."""
    random = draw(st.randoms(use_true_random=True))
    steps: list[Any] = [("set", {"h": random.choice([1, 9]), "on": random.random() < 0.7})]
    steps += [appoint_step(random) for _ in range(random.randint(3, 8))] + SWEEP + SWEEP
    for _ in range(random.randint(4, 14)):
        steps += change(random)
    return steps


STEPS = histories()


def read(text: str) -> Fact:
    """Read what `written` wrote."""
    name, _, rest = text.partition("(")
    terms = rest.rstrip(")").split(", ") if rest else []
    return name, tuple(int(term) if term.isdigit() else term for term in terms)


def put(fact: Fact, bindings: Mapping[str, Any]) -> Fact:
    return fact[0], tuple(bindings.get(term, term) for term in fact[1])


@dataclass
class Oracle:
    """The same session, the slow way."""

    policy: dict[str, Any]
    now: int = 0
    env: dict[str, Any] = field(default_factory=dict)
    issued: dict[tuple[Fact, str], tuple[int, float]] = field(default_factory=dict)
    active: dict[Fact, list[tuple[str, Any]]] = field(default_factory=dict)

    def held(self) -> set[Fact]:
        return {fact for (fact, _), (begin, end) in self.issued.items() if begin <= self.now < end}

    def true(self, condition: tuple[str, Any], active: Iterable[Fact]) -> bool:
        kind, what = condition
        if kind == "constraint":
            text, bindings = what
            return MEANING[text](self.env, bindings)
        return what in (active if kind == "role" else self.held())

    def conditions(self, rule: dict[str, Any], bindings: Mapping[str, Any]) -> list[Any]:
        return [
            *(("role", put(read(text), bindings)) for text in rule["prerequisites"]),
            *(("appointment", put(read(text), bindings)) for text in rule["appointments"]),
            *(("constraint", (text, bindings)) for text in rule["constraints"]),
        ]

    def groundings(self, rule: dict[str, Any], asked: Fact) -> list[dict[str, Any]]:
        every = (
            dict(zip(VARIABLES, values, strict=True))
            for values in itertools.product(CONSTANTS, repeat=len(VARIABLES))
        )
        return [each for each in every if put(read(rule["role"]), each) == asked]

    def granted(self, asked: Fact) -> bool:
        active = self.after_end_of(asked)
        return any(
            all(self.true(each, active) for each in self.conditions(rule, bindings))
            for rule in self.policy["rules"]
            for bindings in self.groundings(rule, asked)
        )

    def least_missing(self, asked: Fact) -> int | None:
        active = self.after_end_of(asked)
        counts = [
            sum(not self.true(each, active) for each in self.conditions(rule, bindings))
            for rule in self.policy["rules"]
            for bindings in self.groundings(rule, asked)
        ]
        return min(counts, default=None)

    def after_end_of(self, role: Fact) -> dict[Fact, Any]:
        return self.settled({fact: why for fact, why in self.active.items() if fact != role})

    def settled(self, active: dict[Fact, Any]) -> dict[Fact, Any]:
        while True:
            kept = {
                fact: why
                for fact, why in active.items()
                if all(self.true(condition, active) for condition in why)
            }
            if kept == active:
                return kept
            active = kept

    def watched(self, activation: Activation) -> list[tuple[str, Any]]:
        """What the rule that the engine names watches, under the bindings that it names."""
        rule = self.policy["rules"][activation.rule - 1]
        bindings = dict(activation.bindings)
        return [
            condition
            for condition, text in zip(
                self.conditions(rule, bindings),
                [*rule["prerequisites"], *rule["appointments"], *rule["constraints"]],
                strict=True,
            )
            if text in rule["membership"]
        ]


def play(session: Session, oracle: Oracle, step: tuple[Any, ...]) -> bool:
    """Do a step on both; return what the oracle expects of `ok`."""
    match step:
        case ("activate", fact):
            expected = oracle.granted(fact)
            outcome = session.activate(written(fact))
            assert outcome.ok == expected
            if outcome.activation is not None:
                activation = outcome.activation
                rule = oracle.policy["rules"][activation.rule - 1]
                bindings = dict(activation.bindings)
                assert put(read(rule["role"]), bindings) == fact
                others = oracle.after_end_of(fact)
                assert all(oracle.true(each, others) for each in oracle.conditions(rule, bindings))
                oracle.active[fact] = oracle.watched(activation)
                event("granted")
            else:
                assert outcome.denial is not None
                least = oracle.least_missing(fact)
                assert (least is None) == (outcome.denial.rule is None)
                # A constraint on a variable that nothing binds counts as missing here.
                assert least is None or 1 <= least <= len(outcome.denial.missing)
                event("denied")
        case ("deactivate", fact):
            expected = fact in oracle.active
            outcome = session.deactivate(written(fact))
            oracle.active.pop(fact, None)
        case ("appoint", fact, issuer, begin, length):
            starts = oracle.now + begin - 1
            end = None if length is None else starts + length
            expected = end is None or end > oracle.now
            if expected:
                oracle.issued[fact, issuer] = (starts, float("inf") if end is None else end)
            outcome = session.appoint(written(fact), issuer=issuer, starts=starts, expires=end)
        case ("revoke", fact, issuer):
            gone = [key for key in oracle.issued if key[0] == fact and issuer in (None, key[1])]
            expected = any(oracle.issued[key][1] > oracle.now for key in gone)
            for key in gone:
                del oracle.issued[key]
            outcome = session.revoke(written(fact), issuer=issuer)
        case ("set", env):
            expected = True
            oracle.env.update(env)
            oracle.env = {name: value for name, value in oracle.env.items() if value is not None}
            outcome = session.set(env)
        case (_, seconds):
            expected = True
            outcome = session.advance(oracle.now + seconds)
            for _ in range(seconds):
                oracle.now += 1
                oracle.active = oracle.settled(oracle.active)
    assert outcome.ok == expected
    before = set(oracle.active) if step[0] != "wait" else None
    oracle.active = oracle.settled(oracle.active)
    if before is not None:
        assert {read(each.role.text) for each in outcome.fallen} == before - set(oracle.active)
    seen: list[Any] = []
    for fallen in outcome.fallen:
        assert fallen.cause is None or fallen.cause in seen  # causes come first
        assert fallen.chain[-1] == fallen.reason
        event("fell by itself" if fallen.cause is None else "fell with another")
        seen.append(fallen)
    return expected


def holds(condition: Ground, session: Session, oracle: Oracle) -> bool:
    if isinstance(condition, Credential):
        fact = read(condition.atom.text)
        return fact in (oracle.active if condition.kind == "role" else oracle.held())
    assert isinstance(condition, Bound)
    return MEANING[condition.constraint.text](oracle.env, dict(condition.bindings))


@LONG
@given(POLICIES, STEPS)
def test_a_session_does_what_enumeration_says(policy: dict[str, Any], steps: list[Any]) -> None:
    session, oracle = Session(RolePolicy.from_json(policy)), Oracle(policy)
    for step in steps:
        play(session, oracle, step)
        assert list(session.active) == sorted(written(fact) for fact in oracle.active)
        assert session.now == oracle.now
        for activation in session.activations:
            assert all(holds(each, session, oracle) for each in activation.membership)
        assert_well_founded(session.activations)


def assert_well_founded(activations: tuple[Activation, ...]) -> None:
    """No circle of roles keeps itself up: all can be put back one by one."""
    standing: set[Any] = set()
    left = list(activations)
    while left:
        ready = [
            each
            for each in left
            if all(
                condition.atom in standing
                for condition in each.membership
                if isinstance(condition, Credential) and condition.kind == "role"
            )
        ]
        assert ready
        standing.update(each.role for each in ready)
        left = [each for each in left if each not in ready]


@QUICK
@given(POLICIES, st.sets(facts(APPOINTMENTS), max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_activation_does_not_matter(
    policy: dict[str, Any], appointments: set[Fact], random: Any
) -> None:
    # Rules are monotone: whoever tries everything again and again ends with the same roles.
    every = ROLE_FACTS
    ends = []
    for _ in range(2):
        session = Session(RolePolicy.from_json(policy))
        for fact in random.sample(sorted(appointments, key=str), len(appointments)):
            session.appoint(written(fact))
        session.set({"h": 9, "on": True})
        before: tuple[str, ...] | None = None
        while before != session.active:
            before = session.active
            for fact in random.sample(every, len(every)):
                if written(fact) not in session.active:
                    session.activate(written(fact))
        ends.append(session.active)
    oracle = Oracle(policy, env={"h": 9, "on": True})
    oracle.issued = {(fact, ""): (0, float("inf")) for fact in appointments}
    grown = True
    while grown:
        new = [fact for fact in every if fact not in oracle.active and oracle.granted(fact)]
        oracle.active.update({fact: [] for fact in new})
        grown = bool(new)
    assert ends[0] == ends[1] == tuple(sorted(written(fact) for fact in oracle.active))


@QUICK
@given(POLICIES, STEPS)
def test_what_is_lacking_is_as_little_as_can_be(policy: dict[str, Any], steps: list[Any]) -> None:
    for rule in policy["rules"]:  # constraints on variables may count once more, see above
        rule["constraints"] = [
            each for each in rule["constraints"] if each.startswith(("!", "env.on"))
        ]
        rule["membership"] = []
    session, oracle = Session(RolePolicy.from_json(policy)), Oracle(policy)
    for step in steps:
        play(session, oracle, step)
    for name, size in ROLES.items():
        asked = (name, (1,) * size)
        outcome = session.activate(written(asked))
        if outcome.ok:
            oracle.active[asked] = []  # nothing is watched here
        elif outcome.denial is not None and outcome.denial.rule is not None:
            assert len(outcome.denial.missing) == oracle.least_missing(asked)


@QUICK
@given(POLICIES)
def test_a_policy_is_written_and_read_back(policy: dict[str, Any]) -> None:
    read_once = RolePolicy.from_json(policy)
    again = RolePolicy.from_json(read_once.to_json())
    assert again == read_once
    assert again.to_json() == read_once.to_json()


@QUICK
@given(POLICIES, STEPS)
def test_steps_as_json_say_what_the_session_does(policy: dict[str, Any], steps: list[Any]) -> None:
    plain = [
        {"do": do, ("role" if do.endswith("activate") else "appointment"): written(fact)}
        for do, fact, *_ in steps
        if do not in ("set", "wait")
    ]
    session = Session(RolePolicy.from_json(policy))
    for step, result in zip(plain, run_session(policy, plain), strict=True):
        do, what = step.values()
        outcome = getattr(session, do)(what)
        assert result == {
            "ok": outcome.ok,
            "active": list(session.active),
            "reason": outcome.reason,
        }
