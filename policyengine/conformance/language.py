"""`evaluate` and `normalise`: the language in clear, the oracle of everything else."""

from __future__ import annotations

from policyengine.attributes import evaluate, normalise
from policyengine.conformance.fields import Fields, expression_of, schema_of, values_of


def answer_evaluate(fields: Fields) -> dict[str, object]:
    """Tell whether an expression holds for values."""
    schema = schema_of(fields)
    expression = expression_of(fields, "expression", schema)
    return {"value": evaluate(expression, values_of(fields, "values", schema))}


def answer_normalise(fields: Fields) -> dict[str, object]:
    """Bring an expression to disjunctive normal form."""
    schema = schema_of(fields)
    conjunctions = normalise(expression_of(fields, "expression", schema), schema)
    return {"dnf": [[literal.to_json() for literal in terms] for terms in conjunctions]}
