"""Is a domain's own policy on an inherited type wider than those of the domain above?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from adminapp.policies.finding import Finding
from adminapp.policies.grants import Grant
from adminapp.policies.judging import Answer, implied
from adminapp.policies.language import PolicyConjunction
from adminapp.policies.models import Policy
from adminapp.policies.scene import Scene, as_often, covers, including, who
from adminapp.policies.valuerules import ACCESS
from policyengine.attributes import Schema

_SHOWN = 5


@dataclass(frozen=True)
class Above:
    """The model of the domain above.

    Args:
        name: the domain.
        scene: its policies and language.
    """

    name: str
    scene: Scene


def wider(scene: Scene, above: Above, row: Policy) -> Iterator[Finding]:
    """What a policy permits that no policy of the domain above does."""
    permitted = [
        grant
        for other in above.scene.fit
        if other.action == row.action and covers(other, row) and as_often(other, row)
        for grant in above.scene.grants[other.name]
    ]
    beyond: dict[Answer, list[tuple[str, str | None, PolicyConjunction]]] = {
        "no": [],
        "unknown": [],
    }
    for grant in scene.grants[row.name]:
        for kind, attribute, way, answer in _answers(scene, above, grant, permitted):
            if answer != "yes":
                beyond[answer].append((kind, attribute, way))
    if beyond["no"]:
        said = f"no policy of `{above.name}` lets {_words(beyond['no'])}"
        yield Finding("wider", "warning", row.name, said)
    elif beyond["unknown"]:
        said = f"whether a policy of `{above.name}` lets {_words(beyond['unknown'])}"
        yield Finding("wider", "unknown", row.name, f"it cannot be told {said}")


def _answers(
    scene: Scene, above: Above, grant: Grant, permitted: list[Grant]
) -> Iterator[tuple[str, str | None, PolicyConjunction, Answer]]:
    """For each attribute of each inherited type whether the domain above permits as much."""
    known: dict[tuple[object, ...], Answer] = {}
    theirs = above.scene.spoken.types
    for kind in grant.types:
        if kind not in theirs.names:
            continue  # the domain's own: nobody above speaks of it
        line = above.scene.above(kind)
        for attribute in _attributes(scene, above, grant, kind):
            ways = tuple(including(permitted, attribute, line))
            for way in grant.conjunctions:
                place = (way, ways)
                if place not in known:
                    own = scene.schema(grant.policy.event_type.name, [way])
                    theirs_too = above.scene.schema(line[-1], ways)
                    known[place] = _answer(way, ways, own, theirs_too)
                yield kind, attribute, way, known[place]


def _attributes(scene: Scene, above: Above, grant: Grant, kind: str) -> list[str | None]:
    if grant.policy.action not in ACCESS:
        return [None]
    theirs = {spec.name for spec in above.scene.spoken.types.attributes(kind)}
    own = [spec.name for spec in scene.spoken.types.attributes(kind)]
    allowed = grant.attributes
    return [
        None,
        *(name for name in own if name in theirs and (allowed is None or name in allowed)),
    ]


def _answer(
    way: PolicyConjunction, ways: tuple[PolicyConjunction, ...], own: Schema, theirs: Schema
) -> Answer:
    answer = implied(way, ways, {**theirs, **own})
    named = {name for part in (way, *ways) for name in part.names}
    same = all(own[name] == theirs[name] for name in named if name in own and name in theirs)
    # A name that means something else above says nothing about what it means here.
    return answer if same else "unknown"


def _words(found: Iterable[tuple[str, str | None, PolicyConjunction]]) -> str:
    listed = list(dict.fromkeys(found))
    kind, _, way = listed[0]
    names = [name for each, name, other in listed if name and each == kind and other == way]
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN]) + (", …" if names[_SHOWN:] else "")
    what = f"{shown} of `{kind}`" if names else f"`{kind}`"
    return f"{what} be had by {who(way)}"
