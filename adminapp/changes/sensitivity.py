"""Which changes touch what tells of people: a domain may ask for a second person there alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adminapp.catalog import selectors as catalog
from adminapp.catalog.models import Attribute
from adminapp.changes.planning import Change
from adminapp.identity.models import Domain

SENSITIVE = frozenset({Attribute.PiaClass.IDENTIFYING, Attribute.PiaClass.CONFIDENTIAL})


def any_sensitive(domain: Domain, changes: Iterable[Change]) -> bool:
    """Whether one of the changes concerns an identifying or confidential attribute."""
    found = list(changes)
    names = _sensitive_names(domain)
    return any(_sensitive(change, names) for change in found)


def _sensitive_names(domain: Domain) -> dict[str, frozenset[str]]:
    """Sensitive attributes of each type, inherited ones and those of its sub-types included."""
    types = catalog.engine_types(domain)
    classes = {
        name: {spec.name for spec in types.attributes(name) if spec.pia in SENSITIVE}
        for name in types.names
    }
    return {
        name: frozenset().union(*(classes[each] for each in (name, *types.subtree(name))))
        for name in types.names
    }


def _sensitive(change: Change, names: Mapping[str, frozenset[str]]) -> bool:
    documents = [each for each in (change.before, change.after) if each]
    match change.kind:
        case "event-type":
            return _attributes(change.before) != _attributes(change.after)
        case "policy":
            return any(_reads_sensitive(each, names) for each in documents)
        case "split" | "risk-acceptance":
            return any(names.get(str(each.get("event_type", ""))) for each in documents)
        case "agreement" | "trust-group" | "attribute-key":
            return True
        case _:
            return False


def _attributes(document: Any) -> list[Any]:
    """The sensitive attributes that a type declares, with everything that is said of them."""
    declared = (document or {}).get("attributes", [])
    return [each for each in declared if each.get("pia_class") in SENSITIVE]


def _reads_sensitive(policy: Mapping[str, Any], names: Mapping[str, frozenset[str]]) -> bool:
    sensitive = names.get(str(policy["event_type"]), frozenset())
    granted = policy.get("attributes")
    return bool(sensitive if granted is None else sensitive & set(granted))
