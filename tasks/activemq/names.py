"""Distinguished names as ActiveMQ compares them.

ActiveMQ maps the text of `X500Name.toString()` to a user. A name that cannot be written in
that form beyond doubt is refused: nobody gets in under it.
"""

from __future__ import annotations

import re

# Keywords that Python's RFC 4514 form and Java's have in common.
_KEYWORD = "CN|OU|O|L|ST|C|STREET|DC|UID"
# What Java writes without quotes; `+ = , < > # ; " \` would have it quote or escape.
_VALUE = r"[\w.@:/()'&*-]+(?: [\w.@:/()'&*-]+)*"
_RDN = re.compile(rf"({_KEYWORD})=({_VALUE})")
_LONGEST = 1000


class UnusableNameError(ValueError):
    """A distinguished name that ActiveMQ and we might write differently."""


def java_name(subject: str) -> str:
    """A distinguished name as Java writes it.

    Args:
        subject: RFC 4514 (`CN=a,O=b`), most specific part first; blanks after commas are allowed.

    Raises:
        UnusableNameError: a part whose form is not the same everywhere.
    """
    parts = re.split(r", ?", subject)
    if len(subject) > _LONGEST or not all(_RDN.fullmatch(part) for part in parts):
        raise UnusableNameError(f"the name `{subject}` has parts that brokers may read otherwise")
    return ", ".join(parts)


def standard_name(common_name: str, unit: str, suffix: str = "") -> str:
    """The name that the operator's authority puts into a certificate of ours.

    Args:
        common_name: an agent's or comparator's name, a client's handle, or `control`.
        unit: `agents`, `clients`, `comparators` or `control`.
        suffix: further parts in Java's form, or "".
    """
    return ", ".join(part for part in (f"CN={common_name}", f"OU={unit}", suffix) if part)
