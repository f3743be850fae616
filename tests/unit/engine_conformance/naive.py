"""An evaluator of its own: what expressions mean, written without a look at the engine.

Expressions here are nested tuples, made at random together with their text:

    ("test", attribute, op, wanted)   ("and" | "or", [terms])   ("not", term)
    ("atLeast", count, [terms])       ("const", truth value)
"""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

OPS = {
    "string": ["==", "!=", "in", "startsWith", "endsWith", "has"],
    "enum": ["==", "!=", "in", "has"],
    "bool": ["==", "!=", "in", "has", "bare"],
    "int": ["==", "!=", "<", "<=", ">", ">=", "in", "has"],
    "float": ["==", "!=", "<", "<=", ">", ">=", "in", "has"],
}
TEXTS = ["", "a", "ab", "abc", "b", "bc", "West", 'q"\\', "é😀", "a'b", "\n", "true", "1"]

SCHEMA: dict[str, dict[str, Any]] = {
    "zone": {"type": "string"},
    "house.name": {"type": "string"},
    "level": {"type": "int", "min": 0, "max": 1023},
    "small": {"type": "int", "min": -2, "max": 3, "step": 1},
    "free": {"type": "int"},
    "unit": {"type": "enum", "values": ["a", "b", "c d"]},
    "on": {"type": "bool"},
    "t": {"type": "float", "min": 0, "max": 100, "step": 0.5},
    "wide": {"type": "float"},
}


def domain(declared: dict[str, Any]) -> list[Any]:
    """Return some values of a declared domain, the odd ones first."""
    kind = declared["type"]
    if kind == "string":
        return TEXTS
    if kind == "enum":
        return declared["values"]
    if kind == "bool":
        return [True, False]
    low, high = declared.get("min"), declared.get("max")
    if kind == "int":
        return [-5, -1, 0, 1, 2, 10**20] if low is None else [low, low + 1, low + 2, high - 1, high]
    return [-1.5, 0, 0.1, 1, 1e22] if low is None else [0, 0.5, 1, 50.0, 99.5, 100]


def literals(declared: dict[str, Any]) -> list[Any]:
    """Return values that a text may compare with, some of them outside the domain."""
    outside = {"int": [-7, 4000], "float": [-7.25, 4000, 0.3]}
    return domain(declared) + outside.get(declared["type"], [])


def make(rng: random.Random, schema: dict[str, Any], depth: int = 3) -> tuple[Any, ...]:
    """Make a random expression."""
    shape = rng.choice(["test"] * 4 + ["and", "or", "not", "atLeast", "const"])
    if depth == 0 or shape == "test":
        return _test(rng, schema)
    if shape == "const":
        return ("const", rng.random() < 0.5) if rng.random() < 0.3 else _test(rng, schema)
    if shape == "not":
        return ("not", make(rng, schema, depth - 1))
    terms = [make(rng, schema, depth - 1) for _ in range(rng.randint(1, 4))]
    if shape == "atLeast":
        return ("atLeast", rng.randint(1, len(terms)), terms)
    return (shape, terms)


def _test(rng: random.Random, schema: dict[str, Any]) -> tuple[Any, ...]:
    name = rng.choice(sorted(schema))
    op = rng.choice(OPS[schema[name]["type"]])
    pool = literals(schema[name])
    if op in ("has", "bare"):
        return ("test", name, op, None)
    if op == "in":
        return ("test", name, op, [rng.choice(pool) for _ in range(rng.randint(0, 3))])
    return ("test", name, op, rng.choice(pool))


def values(rng: random.Random, schema: dict[str, Any], absent: float = 0.3) -> dict[str, Any]:
    """Make random values; some attributes are absent."""
    return {
        name: rng.choice(domain(declared))
        for name, declared in schema.items()
        if rng.random() >= absent
    }


def write(rng: random.Random, node: tuple[Any, ...]) -> str:
    """Write an expression, in one of the ways in which it can be written."""
    match node:
        case ("const", truth):
            return "true" if truth else "false"
        case ("not", term):
            return f"!({write(rng, term)})"
        case ("atLeast", count, terms):
            listed = ",".join(write(rng, term) for term in terms)
            return f"atLeast( {count} , [{listed}])"
        case ("test", name, op, wanted):
            return _written_test(rng, name, op, wanted)
        case (kind, terms):
            word = " && " if kind == "and" else "||"
            return word.join(f"({write(rng, term)})" for term in terms)
    raise AssertionError(node)


def _written_test(rng: random.Random, name: str, op: str, wanted: Any) -> str:
    if op == "has":
        return f"has({name})"
    if op == "bare":
        return name
    if op == "in":
        return f"{name} in [{', '.join(literal(rng, item) for item in wanted)}]"
    text = literal(rng, wanted)
    if op.endswith("With"):
        return f"{name}.{op}({text})" if rng.random() < 0.5 else f"{name} {op} {text}"
    turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
    return f"{name} {op} {text}" if rng.random() < 0.7 else f"{text}{turned}{name}"


def literal(rng: random.Random, value: Any) -> str:
    """Write a value as a literal."""
    return json.dumps(value, ensure_ascii=rng.random() < 0.5)


def holds(node: tuple[Any, ...], given: dict[str, Any]) -> bool:
    """Tell whether an expression holds."""
    match node:
        case ("const", truth):
            return truth
        case ("not", term):
            return not holds(term, given)
        case ("and", terms):
            return all(holds(term, given) for term in terms)
        case ("or", terms):
            return any(holds(term, given) for term in terms)
        case ("atLeast", count, terms):
            return len([term for term in terms if holds(term, given)]) >= count
        case ("test", name, op, wanted):
            return name in given and _compare(given[name], op, wanted)
    raise AssertionError(node)


def _compare(actual: Any, op: str, wanted: Any) -> bool:
    if op == "has":
        return True
    if op == "bare":
        return actual is True
    if op == "in":
        return any(actual == item for item in wanted)
    if op == "startsWith":
        return actual[: len(wanted)] == wanted
    if op == "endsWith":
        return wanted == "" or actual[-len(wanted) :] == wanted
    if op in ("==", "!="):
        return (actual == wanted) == (op == "==")
    if op in ("<", ">="):
        return (actual < wanted) == (op == "<")
    return (actual > wanted) == (op == ">")


def literal_holds(entry: dict[str, Any], given: dict[str, Any]) -> bool:
    """Tell whether one literal of a normal form holds."""
    name, op = entry["attribute"], entry["op"]
    if op in ("has", "!has"):
        assert set(entry) == {"attribute", "op"}
        return (name in given) == (op == "has")
    assert set(entry) == {"attribute", "op", "value"}
    if name not in given:
        return False
    if op in ("!in", "!startsWith", "!endsWith"):
        return not _compare(given[name], op[1:], entry["value"])
    return _compare(given[name], op, entry["value"])


def first_conjunction(dnf: list[list[dict[str, Any]]], given: dict[str, Any]) -> Any:
    """Return the first conjunction of a normal form that holds, or None."""
    for terms in dnf:
        if all(literal_holds(entry, given) for entry in terms):
            return terms
    return None


def names(node: tuple[Any, ...]) -> set[str]:
    """Return the attributes that an expression names."""
    match node:
        case ("test", name, _, _):
            return {name}
        case ("not", term):
            return names(term)
        case ("and" | "or", terms) | ("atLeast", _, terms):
            return set().union(*(names(term) for term in terms))
    return set()


def negates_open_text(
    node: tuple[Any, ...], schema: dict[str, Any], *, negated: bool = False
) -> bool:
    """Tell whether some test of a string asks for anything but what it names."""
    match node:
        case ("not", term):
            return negates_open_text(term, schema, negated=not negated)
        case ("and" | "or", terms) | ("atLeast", _, terms):
            return any(negates_open_text(term, schema, negated=negated) for term in terms)
        case ("test", name, op, _) if schema[name]["type"] == "string" and op != "has":
            return (op == "!=") != negated
    return False


def states(node: tuple[Any, ...], schema: dict[str, Any], rng: random.Random, most: int = 400):
    """Yield combinations of values that decide an expression: all, or `most` of them."""
    named = sorted(names(node))
    choices = [[None, *_telling(node, name, schema[name])] for name in named]
    total = 1
    for choice in choices:
        total *= len(choice)
    rows = itertools.product(*choices) if total <= most else _some(choices, rng, most)
    for row in rows:
        yield {name: value for name, value in zip(named, row, strict=True) if value is not None}


def _some(choices: list[list[Any]], rng: random.Random, most: int):
    for _ in range(most):
        yield tuple(rng.choice(choice) for choice in choices)


def _telling(node: tuple[Any, ...], name: str, declared: dict[str, Any]) -> list[Any]:
    """Return the values around everything that an attribute is compared with."""
    kind = declared["type"]
    found = list(domain(declared))
    if kind in ("int", "float"):
        step = declared.get("step", 1)
        for wanted in _wanted(node, name):
            found += [wanted - step, wanted, wanted + step]
        low, high = declared.get("min"), declared.get("max")
        found = [value for value in found if low is None or low <= value <= high]
        if kind == "int":
            found = [value for value in found if isinstance(value, int)]
        if low is not None:
            found = [value for value in found if (value - low) / step == (value - low) // step]
    return list(dict.fromkeys(found))


def _wanted(node: tuple[Any, ...], name: str) -> list[Any]:
    match node:
        case ("test", here, _, wanted):
            if here != name or wanted is None:
                return []
            return wanted if isinstance(wanted, list) else [wanted]
        case ("not", term):
            return _wanted(term, name)
        case ("and" | "or", terms) | ("atLeast", _, terms):
            return [found for term in terms for found in _wanted(term, name)]
    return []
