"""What constraints may speak of, of a domain, at a moment; and what they ask the clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from adminapp.core import clock
from adminapp.identity import ports
from adminapp.identity.models import Domain
from policyengine.attributes import AttributeType, Equal, Literal, Test, Value, parse
from policyengine.attributes.syntax import walk
from policyengine.roles import Constraint

# A value of the clock that is compared with another value, and not with a number, may decide
# anew whenever it changes: these change at least as often.
_FINER = {
    clock.TIME: clock.MINUTE,
    clock.DATE: clock.DAY,
    clock.YEAR: clock.MONTH,
}


def environment(domain: Domain, at: datetime) -> dict[str, Value]:
    """Everything that is set for a domain at a moment, by full name: the clock, and variables."""
    return ports.environment(domain, at)


def clock_tests(constraints: Iterable[Constraint]) -> list[Literal]:
    """What constraints ask the clock."""
    return list(dict.fromkeys(test for each in constraints for test in _tests(each)))


def _tests(constraint: Constraint) -> Iterator[Literal]:
    if not any(name in clock.FACTS for name in constraint.names):
        return
    schema = {use.name: AttributeType(use.kind or "string") for use in constraint.uses}  # type: ignore[arg-type]
    for node in walk(parse(constraint.text, schema, joins=True)):
        if isinstance(node, Test) and node.attribute in clock.FACTS:
            yield Literal(node.attribute, node.op, node.value)
        elif isinstance(node, Equal):
            for name in (node.left, node.right):
                if name in clock.FACTS:
                    yield from every_value(name)


def every_value(fact: str) -> Iterator[Literal]:
    """Tests that answer otherwise whenever a value of the clock changes."""
    name = _FINER.get(fact, fact)
    declared = clock.FACTS[name]
    least, most = int(declared.minimum or 0), int(declared.maximum or 0)
    yield from (Literal(name, "==", value) for value in range(least, most + 1))
