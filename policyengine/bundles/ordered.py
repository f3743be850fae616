"""What a bundle tells agents of order-preserving attributes (paper 003): columns, no keys.

Clients get the keys of attributes and the comparator its own (`blind.OrderKey`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from policyengine.ope.keys import ORDER_SCHEMES
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
