"""How versions of an event type are named on the wire.

The first version of a type has its plain name, the others a number: `Departure`, `Departure@2`.
A name means the same for as long as it is in force.
"""

from __future__ import annotations

import re
from typing import Final

from adminapp.catalog.models import EventType, type_name
from adminapp.core.errors import Invalid
from adminapp.identity.lineage import lineage
from adminapp.identity.models import Domain

MARK: Final = "@"
_PLAIN = re.compile(r"\A(?P<base>[^@]+)(?:@(?P<number>[1-9][0-9]*))?\Z")


def parts(name: str) -> tuple[str, int]:
    """The plain name and the number of a version; 1 where there is none."""
    found = _PLAIN.match(name)
    if found is None:
        return name, 1
    return found["base"], int(found["number"] or 1)


def check(domain: Domain, name: str) -> None:
    """Refuse the name of a version that follows nothing.

    Raises:
        Invalid: at `/name`.
    """
    base, number = parts(name)
    if MARK not in name or not type_name.regex.match(name):
        return  # what is no name at all, the model refuses
    if number < 2:
        raise Invalid.at("/name", f"the first version of `{base}` is called `{base}`")
    numbers = [each for _name, each in _line(lineage(domain), base)]
    if min(numbers, default=number) >= number:
        raise Invalid.at("/name", f"there is no `{base}` that `{name}` could follow", "unknown")


def following(row: EventType) -> str:
    """The name of the next version of a type.

    Raises:
        Invalid: at `/name`, the plain name is too long to be numbered.
    """
    base, number = parts(row.name)
    numbers = [each for _name, each in _line([row.domain], base)]
    name = f"{base}{MARK}{max([number, *numbers]) + 1}"
    if not type_name.regex.match(name):
        raise Invalid.at("/name", f"`{base}` is too long a name to have versions")
    return name


def later(row: EventType) -> list[str]:
    """Names of the versions of the same domain that came after a type, in order."""
    base, number = parts(row.name)
    return [name for name, each in _line([row.domain], base) if each > number]


def _line(domains: object, base: str) -> list[tuple[str, int]]:
    """The versions of a plain name, in order."""
    found = EventType.objects.filter(domain__in=domains, name__startswith=base)
    names = {name for name in found.values_list("name", flat=True) if parts(name)[0] == base}
    return sorted(((name, parts(name)[1]) for name in names), key=lambda each: each[1])
