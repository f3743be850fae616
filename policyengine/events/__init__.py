"""Event types, attribute keys, coverage and merging of subscriptions, restriction.

Source: paper 002, sections 3.1, 4.2, 4.3 and 5.
"""

from policyengine.events.coverage import Filter, Subscription, covers, equivalent, views
from policyengine.events.documents import covers_json, restrict_json, types_from_json
from policyengine.events.implication import WORK, implies
from policyengine.events.merging import (
    Change,
    Merger,
    RoutingTable,
    merge,
    merge_exactly,
    merger,
)
from policyengine.events.possible import may_hold
from policyengine.events.protection import Protected, protect, reveal
from policyengine.events.restriction import (
    NOT_PERMITTED,
    AttributePolicy,
    Direction,
    Entry,
    Removed,
    Restricted,
    restrict,
)
from policyengine.events.rules import (
    ACTIONS,
    CONDITION,
    SUPER_TYPE,
    Action,
    AttributeRule,
    Outcome,
    ValuePolicy,
    lower,
)
from policyengine.events.types import AttributeSpec, EventTypes, TypeSpec

__all__ = [
    "ACTIONS",
    "CONDITION",
    "NOT_PERMITTED",
    "SUPER_TYPE",
    "WORK",
    "Action",
    "AttributePolicy",
    "AttributeRule",
    "AttributeSpec",
    "Change",
    "Direction",
    "Entry",
    "EventTypes",
    "Filter",
    "Merger",
    "Outcome",
    "Protected",
    "Removed",
    "Restricted",
    "RoutingTable",
    "Subscription",
    "TypeSpec",
    "ValuePolicy",
    "covers",
    "covers_json",
    "equivalent",
    "implies",
    "lower",
    "may_hold",
    "merge",
    "merge_exactly",
    "merger",
    "protect",
    "restrict",
    "restrict_json",
    "reveal",
    "types_from_json",
    "views",
]
