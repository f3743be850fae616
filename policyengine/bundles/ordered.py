"""What a bundle tells agents of order-preserving attributes (paper 003): columns, no keys.

Clients get the keys of attributes and the comparator its own (`blind.OrderKey`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from policyengine.events import EventTypes
from policyengine.ope.keys import ORDER_SCHEMES, Slot
from policyengine.ope.layout import column_names
from policyengine.primitives.records import LABEL, UINT, Choice, Record
from policyengine.trustgroups.epochs import STATES


@dataclass(frozen=True)
class OrderedColumn(Record):
    """One order-preserving attribute in one epoch, as an agent knows it.

    Args:
        type: the event type that declares the attribute.
        attribute: the attribute.
        epoch: number of the key's epoch.
        state: the epoch's state.
        scheme: `sbm1` (agents compare) or `sbm2` (a comparator does).
    """

    type: Annotated[str, LABEL]
    attribute: Annotated[str, LABEL]
    epoch: Annotated[int, UINT]
    state: Annotated[str, Choice(STATES)]
    scheme: Annotated[str, Choice(ORDER_SCHEMES)]


def columns_by_name(
    domain: str, columns: Iterable[OrderedColumn], types: EventTypes
) -> dict[str, OrderedColumn]:
    """Return columns by the names that ciphertexts have there; a text's attribute has two.

    Args:
        domain: the domain.
        columns: of its order-preserving attributes.
        types: its event types.

    Raises:
        InputError: `unknown` where a type or attribute does not exist.
    """
    found: dict[str, OrderedColumn] = {}
    for one in columns:
        declared = types.attribute(one.type, one.attribute).type
        slot = Slot(domain, one.type, one.attribute, one.epoch)
        for direction in column_names("", declared):
            found[slot.column(declared, direction)] = one
    return found
