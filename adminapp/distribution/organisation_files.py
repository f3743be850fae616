"""Organisation files: strict YAML, read into frozen specifications before anything is changed.

The reader takes less than YAML offers, on purpose: no tags, anchors or aliases (no bombs), no
doubled keys (no line that silently loses), plain true, false, numbers and text (`NO` is a text).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

from adminapp.core.errors import Invalid, Problem

MAX_BYTES = 2**20
MAX_DEPTH = 32
FORMAT = "portcullis/organisation/v1"


@dataclass(frozen=True)
class DomainSpec:
    name: str
    title: str
    description: str = ""
    parent: str | None = None
    lease_seconds: int = 30
    encoding: str = "bloom"


@dataclass(frozen=True)
class KeySpec:
    name: str
    title: str = ""


@dataclass(frozen=True)
class SubjectAttributeSpec:
    name: str
    type: dict[str, Any]


@dataclass(frozen=True)
class EventTypeSpec:
    name: str
    parent: str | None = None
    title: str = ""
    description: str = ""
    attributes: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class RoleSpec:
    name: str
    title: str = ""
    rules: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class TrustGroupSpec:
    name: str
    kind: str = "attribute"
    overlay: str | None = None
    members: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class PrincipalSpec:
    name: str
    kind: str
    attributes: dict[str, Any]
    homes: tuple[str, ...] = ()
    appointments: tuple[str, ...] = ()


@dataclass(frozen=True)
class PolicySpec:
    name: str
    action: str
    event_type: str
    expression: str
    title: str = ""
    attributes: tuple[str, ...] | None = None
    enabled: bool = True


@dataclass(frozen=True)
class SplitSpec:
    event_type: str
    groups: tuple[dict[str, Any], ...]
    active: bool = True


@dataclass(frozen=True)
class OrganisationSpec:
    """One file: a domain and everything in it."""

    domain: DomainSpec
    attribute_keys: tuple[KeySpec, ...] = ()
    subject_attributes: tuple[SubjectAttributeSpec, ...] = ()
    event_types: tuple[EventTypeSpec, ...] = ()
    roles: tuple[RoleSpec, ...] = ()
    trust_groups: tuple[TrustGroupSpec, ...] = ()
    principals: tuple[PrincipalSpec, ...] = ()
    policies: tuple[PolicySpec, ...] = ()
    splits: tuple[SplitSpec, ...] = ()


def read_file(path: Path) -> OrganisationSpec:
    """Read one file.

    Raises:
        Invalid: with everything that is wrong, pointers beginning with the file's name.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise Invalid.at("", f"the file has more than {MAX_BYTES} bytes", "too-large")
        return parse(path.read_bytes())
    except OSError as error:
        raise Invalid.at(f"{path.name}: ", f"cannot be read: {error.strerror}") from error
    except Invalid as error:
        raise error.below(f"{path.name}: ") from error


def parse(data: bytes) -> OrganisationSpec:
    """Read the bytes of a file; raises Invalid."""
    if len(data) > MAX_BYTES:
        raise Invalid.at("", f"the file has more than {MAX_BYTES} bytes", "too-large")
    try:
        document = yaml.load(data.decode("utf-8"), Loader=_StrictLoader)  # noqa: S506 - stricter than safe
    except UnicodeDecodeError as error:
        raise Invalid.at("", "the file is not UTF-8", "syntax") from error
    except yaml.YAMLError as error:
        raise Invalid.at("", _yaml_message(error), "syntax") from error
    except RecursionError as error:
        raise Invalid.at("", "the file is nested too deep", "too-large") from error
    if not isinstance(document, dict):
        raise Invalid.at("", "the file holds an object")
    if document.pop("format", None) != FORMAT:
        raise Invalid.at("/format", f"must be `{FORMAT}`")
    return _organisation(document)


# -- YAML ------------------------------------------------------------------------------------


class _StrictLoader(yaml.SafeLoader):
    """YAML with one meaning for one text."""

    yaml_implicit_resolvers: dict[str, Any] = {}
    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.MarkedYAMLError(
                problem="anchors and aliases are not used here", problem_mark=event.start_mark
            )
        if getattr(event, "tag", None):
            raise yaml.MarkedYAMLError(
                problem="tags are not used here", problem_mark=event.start_mark
            )
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem="nested too deep", problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str) or key in seen:
                problem = "a key stands there twice" if key in seen else "a key must be a text"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            seen.add(key)
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}


def _construct_map(loader: _StrictLoader, node: Any) -> Iterator[dict[str, Any]]:
    held: dict[str, Any] = {}
    yield held
    held.update(loader.construct_mapping(node, deep=True))


_StrictLoader.add_constructor("tag:yaml.org,2002:map", _construct_map)
for _tag, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("null", r"null|~|", ["n", "~", ""]),
    ("int", r"-?(0|[1-9][0-9]*)", "-0123456789"),
    ("float", r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+]?[0-9]+)?", "-0123456789"),
):
    _StrictLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"\A(?:{_pattern})\Z"), list(_first)
    )


def _yaml_message(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or "not YAML"
    mark = getattr(error, "problem_mark", None)
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})" if mark else problem


# -- shapes ----------------------------------------------------------------------------------

S = TypeVar("S")

_SECTIONS: Mapping[str, type] = {
    "attribute_keys": KeySpec,
    "subject_attributes": SubjectAttributeSpec,
    "event_types": EventTypeSpec,
    "roles": RoleSpec,
    "trust_groups": TrustGroupSpec,
    "principals": PrincipalSpec,
    "policies": PolicySpec,
    "splits": SplitSpec,
}


def _organisation(document: dict[str, Any]) -> OrganisationSpec:
    problems = [
        Problem(f"/{name}", f"`{name}` is no section of an organisation", "unknown")
        for name in document
        if name != "domain" and name not in _SECTIONS
    ]
    domain = _record(DomainSpec, document.get("domain"), "/domain", problems)
    sections = {
        name: _section(kind, document.get(name, []), f"/{name}", problems)
        for name, kind in _SECTIONS.items()
    }
    if problems or domain is None:
        raise Invalid(problems)
    return OrganisationSpec(domain=domain, **sections)


def _section(kind: type[S], value: Any, pointer: str, problems: list[Problem]) -> tuple[S, ...]:
    if not isinstance(value, list):
        problems.append(Problem(pointer, "must be a list"))
        return ()
    found = [
        _record(kind, item, f"{pointer}/{index}", problems) for index, item in enumerate(value)
    ]
    present = tuple(item for item in found if item is not None)
    names = [getattr(item, "name", None) or getattr(item, "event_type", "") for item in present]
    doubled = sorted({name for name in names if names.count(name) > 1})
    problems += [Problem(pointer, f"`{name}` stands there twice") for name in doubled]
    return present


def _record(kind: type[S], value: Any, pointer: str, problems: list[Problem]) -> S | None:
    if not isinstance(value, dict):
        problems.append(Problem(pointer, "must be an object"))
        return None
    declared = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    before = len(problems)
    problems += [
        Problem(f"{pointer}/{name}", f"`{name}` is not known here", "unknown")
        for name in value
        if name not in declared
    ]
    held = {
        name: _value(str(field.type), value[name], f"{pointer}/{name}", problems)
        for name, field in declared.items()
        if name in value
    }
    for name, field in declared.items():
        if name not in value and field.default is MISSING:
            if field.type == "dict[str, Any]":
                held[name] = {}
                continue
            problems.append(Problem(f"{pointer}/{name}", f"`{name}` is missing"))
    return kind(**held) if len(problems) == before else None


def _value(expected: str, value: Any, pointer: str, problems: list[Problem]) -> Any:
    if expected.endswith(" | None"):
        if value is None:
            return None
        expected = expected.removesuffix(" | None")
    accept, words = _ACCEPTED[expected]
    if not accept(value):
        problems.append(Problem(pointer, f"must be {words}", "type"))
        return None
    return tuple(value) if isinstance(value, list) else value


def _list_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(type(item) is kind for item in value)


_ACCEPTED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "str": (lambda value: type(value) is str, "a text"),
    "int": (lambda value: type(value) is int, "a whole number"),
    "bool": (lambda value: type(value) is bool, "true or false"),
    "dict[str, Any]": (lambda value: type(value) is dict, "an object"),
    "tuple[str, ...]": (_list_of(str), "a list of texts"),
    "tuple[dict[str, Any], ...]": (_list_of(dict), "a list of objects"),
}
