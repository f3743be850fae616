"""Multi-document YAML: one document an object, strict on the way in, byte-stable on the way out.

The reader takes less than YAML offers, on purpose: no tags, anchors or aliases (no bombs), no
doubled keys (no line that silently loses), plain true, false, numbers and text (`NO` is a text).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import BaseResolver

from adminapp.core.errors import Invalid, Problem
from adminapp.identity import kinds
from adminapp.identity.kinds import Document

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 32
_HEADER = ("object", "domain")


@dataclass(frozen=True)
class FileObject:
    """One document of a file.

    Args:
        domain: name of its domain; "" is the platform's.
        kind: name of its kind.
        key: its natural key.
        document: the fields as they stand there.
        place: file, number of the document and its first line, for messages.
    """

    domain: str
    kind: str
    key: str
    document: Document
    place: str


def parse(name: str, data: bytes) -> tuple[FileObject, ...]:
    """Read a file.

    Args:
        name: how messages call it.
        data: its bytes, UTF-8.

    Raises:
        Invalid: with everything that is wrong, pointers beginning with the file's name.
    """
    if len(data) > MAX_BYTES:
        raise Invalid.at(f"{name}: ", f"the file has more than {MAX_BYTES} bytes", "too-large")
    try:
        text = data.decode("utf-8-sig")
        documents = list(_documents(text))
    except UnicodeDecodeError as error:
        raise Invalid.at(f"{name}: ", "the file is not UTF-8", "syntax") from error
    except yaml.YAMLError as error:
        raise Invalid.at(f"{name}: ", _yaml_message(error), "syntax") from error
    except RecursionError as error:
        raise Invalid.at(f"{name}: ", "the file is nested too deep", "too-large") from error
    return _objects(name, documents)


def _documents(text: str) -> Iterator[tuple[int, Any]]:
    """Each document with its first line, empty ones left out."""
    loader = _StrictLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            value = loader.construct_document(node)
            if value is not None:
                yield node.start_mark.line + 1, value
    finally:
        loader.dispose()


def _objects(name: str, documents: list[tuple[int, Any]]) -> tuple[FileObject, ...]:
    problems: list[Problem] = []
    found: list[FileObject] = []
    seen: dict[tuple[str, str, str], str] = {}
    for line, value in documents:
        place = f"{name}:{line}: "
        try:
            each = _object(value, place)
        except Invalid as error:
            problems += error.below(place).problems
            continue
        slot = (each.domain, each.kind, each.key)
        if slot in seen:
            problems.append(
                Problem(
                    place, f"{each.kind} `{each.key}` stands there twice, first at {seen[slot]}"
                )
            )
        seen.setdefault(slot, place.rstrip(": "))
        found.append(each)
    if problems:
        raise Invalid(problems)
    return tuple(found)


def _object(value: Any, place: str) -> FileObject:
    if not isinstance(value, dict):
        raise Invalid.at("", "a document is an object", "type")
    if "object" not in value:
        raise Invalid.at("/object", "each document says what sort of object it is", "missing")
    kind = kinds.kind(str(value["object"]), "/object")
    if not kind.exported:
        raise Invalid.at("/object", f"files do not speak of a {kind.name}")
    document = {name: item for name, item in value.items() if name not in _HEADER}
    key = kind.key(document)
    if kind.platform or kind.name == "domain":
        if "domain" in value:
            raise Invalid.at("/domain", f"a {kind.name} stands in no domain")
        domain = key if kind.name == "domain" else ""
    else:
        domain = value.get("domain")
        if not isinstance(domain, str) or not domain:
            raise Invalid.at("/domain", "each object says in which domain it stands", "missing")
    return FileObject(domain, kind.name, key, document, place)


# -- out -------------------------------------------------------------------------------------


def dump(objects: list[tuple[str, str, Mapping[str, Any]]]) -> str:
    """Objects (`(domain, kind, document)`) as text; equal objects always give equal bytes."""
    return "".join(f"---\n{_dumped(*each)}" for each in objects)


def _dumped(domain: str, kind_name: str, document: Mapping[str, Any]) -> str:
    kind = kinds.kind(kind_name)
    header: dict[str, Any] = {"object": kind_name}
    if not kind.platform and kind_name != "domain":
        header["domain"] = domain
    text: str = yaml.dump(
        _Block({**header, **kind.short(document)}),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=2**20,
        default_flow_style=None,
    )
    return text


class _Block(dict[str, Any]):
    """The whole of a document: a line for each field."""


class _Dumper(yaml.SafeDumper):
    """Never writes an alias: equal parts of a document are written out each time."""

    def block(self, data: _Block) -> yaml.Node:
        return self.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=False)

    def ignore_aliases(self, _data: Any) -> bool:
        return True


_Dumper.add_representer(_Block, _Dumper.block)


# -- in --------------------------------------------------------------------------------------


class _StrictResolver(BaseResolver):
    """One meaning for one text."""


class _StrictLoader(Composer, yaml.cyaml.CParser, SafeConstructor, _StrictResolver):  # type: ignore[misc]
    """Reads by libyaml, composes here, where less is allowed."""

    def __init__(self, text: str) -> None:
        yaml.cyaml.CParser.__init__(self, text)
        SafeConstructor.__init__(self)
        _StrictResolver.__init__(self)
        self.anchors: dict[Any, Any] = {}
        self._depth = 0

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
    _StrictResolver.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"\A(?:{_pattern})\Z"), list(_first)
    )


def _yaml_message(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or "not YAML"
    mark = getattr(error, "problem_mark", None)
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})" if mark else problem
