"""The policy language: text, syntax tree, normal form, evaluation, tokens."""

from policyengine.attributes.evaluation import evaluate
from policyengine.attributes.literals import (
    Conjunction,
    Join,
    Literal,
    bind_joins,
    conjunction_holds,
)
from policyengine.attributes.normal import LIMIT, normalise
from policyengine.attributes.parser import MAX_TEXT, parse
from policyengine.attributes.problems import nearest, shown, unknown
from policyengine.attributes.syntax import And, AtLeast, Equal, Expression, Not, Or, Test, names
from policyengine.attributes.text import to_text, value_text
from policyengine.attributes.tokens import (
    Predicate,
    conjunction_tokens,
    literal_token,
    predicates_of,
    token_attribute,
    tokens_of,
)
from policyengine.attributes.types import (
    AttributeType,
    Schema,
    Value,
    check_name,
    check_values,
    schema_from_json,
)
from policyengine.attributes.universe import (
    ANY,
    NEVER,
    PART_LIMIT,
    Element,
    Gate,
    Leaf,
    Node,
    Ranges,
    access_tree,
    elements_of,
    leaves,
    satisfied,
)

__all__ = [
    "ANY",
    "LIMIT",
    "MAX_TEXT",
    "NEVER",
    "PART_LIMIT",
    "And",
    "AtLeast",
    "AttributeType",
    "Conjunction",
    "Element",
    "Equal",
    "Expression",
    "Gate",
    "Join",
    "Leaf",
    "Literal",
    "Node",
    "Not",
    "Or",
    "Predicate",
    "Ranges",
    "Schema",
    "Test",
    "Value",
    "access_tree",
    "bind_joins",
    "check_name",
    "check_values",
    "conjunction_holds",
    "conjunction_tokens",
    "elements_of",
    "evaluate",
    "leaves",
    "literal_token",
    "names",
    "nearest",
    "normalise",
    "parse",
    "predicates_of",
    "satisfied",
    "schema_from_json",
    "shown",
    "to_text",
    "token_attribute",
    "tokens_of",
    "unknown",
    "value_text",
]
