"""What a policy's expression says, worked out a second time and in another way.

The demo's oracle must not share a line with the engine that it checks. An expression is turned
into a Python one and Python's own parser does the reading; the values are looked up by hand.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

Values = Mapping[str, Any]

_STRING = re.compile(r'("(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\')')
_INFIX = re.compile(r"([\w.]+)\s+(startsWith|endsWith)\s+(\x00\d+\x00)")
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
}


def holds(text: str, values: Values) -> bool:
    """Whether the expression is true of these values; an empty one always is.

    `values` maps dotted names (`subject.role`, `event.carrier`) to values; a comparison on an
    absent one is false. Raises ValueError on anything that the language does not have.
    """
    if not text.strip():
        return True
    return _truth(ast.parse(_as_python(text), mode="eval").body, values)


def _as_python(text: str) -> str:
    strings: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        strings.append(match.group(0))
        return f"\x00{len(strings) - 1}\x00"

    bare = _STRING.sub(put_aside, text)
    bare = _INFIX.sub(r"\2(\1, \3)", bare)
    bare = bare.replace("&&", " and ").replace("||", " or ")
    bare = re.sub(r"!(?!=)", " not ", bare)
    bare = re.sub(r"\btrue\b", "True", re.sub(r"\bfalse\b", "False", bare))
    return re.sub(r"\x00(\d+)\x00", lambda match: strings[int(match.group(1))], bare).strip()


def _truth(node: ast.expr, values: Values) -> bool:
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_truth(part, values) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=parts):
            return any(_truth(part, values) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return not _truth(part, values)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compares(_value(left, values), _COMPARE[type(op)], _value(right, values))
        case ast.Call():
            return _call(node, values)
        case ast.Constant(value=bool() as value):
            return value
        case ast.Name() | ast.Attribute():
            return _value(node, values) is True
    raise ValueError(f"not in the language: {ast.unparse(node)}")


def _compares(left: Any, compare: Callable[[Any, Any], bool], right: Any) -> bool:
    return left is not None and right is not None and bool(compare(left, right))


def _call(node: ast.Call, values: Values) -> bool:
    match node.func, node.args:
        case ast.Name(id="has"), [argument]:
            return _value(argument, values) is not None
        case ast.Name(id="atLeast"), [ast.Constant(value=int(least)), ast.List(elts=terms)]:
            return sum(_truth(term, values) for term in terms) >= least
        case ast.Name(id="startsWith" | "endsWith" as name), [subject, argument]:
            return _affix(name, _value(subject, values), _value(argument, values))
        case ast.Attribute(value=subject, attr="startsWith" | "endsWith" as name), [argument]:
            return _affix(name, _value(subject, values), _value(argument, values))
    raise ValueError(f"not in the language: {ast.unparse(node)}")


def _affix(name: str, value: Any, affix: Any) -> bool:
    if value is None:
        return False
    return bool(value.startswith(affix) if name == "startsWith" else value.endswith(affix))


def _value(node: ast.expr, values: Values) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=terms):
            return [_value(term, values) for term in terms]
        case ast.Name() | ast.Attribute():
            return values.get(ast.unparse(node))
    raise ValueError(f"not in the language: {ast.unparse(node)}")


def names_and_values(text: str) -> set[str]:
    """The attribute names and the texts that stand in an expression."""
    found = set()
    for node in ast.walk(ast.parse(_as_python(text), mode="eval")):
        if isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found
