"""A session as a list of steps, in and out as JSON (`roles.session` of conformance)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from policyengine.attributes import unknown
from policyengine.errors import InputError
from policyengine.roles.outcomes import Outcome, sentences
from policyengine.roles.policy import RolePolicy
from policyengine.roles.reading import Members, placed
from policyengine.roles.session import Session
from policyengine.roles.terms import ground_atom

MAX_STEPS: Final = 10_000
"""How many steps a run may have."""
WORK_LIMIT: Final = 2_000_000
"""Steps of search and names of active roles that a run may come to, all together."""


def run_session(policy: object, steps: object) -> list[dict[str, object]]:
    """Play steps on a fresh session that begins at second 0.

    Args:
        policy: what `RolePolicy.from_json` reads.
        steps: a list of `{"do": "appoint", "appointment": "sworn(7)"}` (also "issuer",
            "starts", "expires"), `{"do": "revoke", "appointment": "sworn(7)"}` (also
            "issuer"), `{"do": "activate", "role": "officer(7)"}`, `{"do": "deactivate",
            "role": "officer(7)"}`, `{"do": "set", "env": {"hour": 20}}`, `{"do":
            "permits", "privilege": "publish(BurglaryEvent)"}` and `{"do": "wait"}`.
            Any of them may have "at", the second in which it is done; without it no
            time passes.

    Returns:
        For each step `{"ok": true, "active": ["employee(7)"], "reason": "..."}`: whether
        it did what was asked, the roles that are active after it (spelled as in the step
        that activated them), sorted, and why.

    Raises:
        InputError: what is wrong with the policy or a step, `where` naming the field;
            `too-large` when it is too much work.
    """
    session = Session(RolePolicy.from_json(policy))
    if not isinstance(steps, Sequence) or isinstance(steps, str):
        raise InputError("type", "the steps are no list", where="steps")
    if len(steps) > MAX_STEPS:
        raise InputError("too-large", f"there are over {MAX_STEPS} steps", where="steps")
    results: list[dict[str, object]] = []
    spelled: dict[str, str] = {}
    listed = 0
    for number, step in enumerate(steps):
        result = _step(session, step, f"steps[{number}]")
        spelled.update(_spelling(step))
        active = sorted(spelled.get(role, role) for role in session.active)
        listed += len(active)
        if session.work + listed > WORK_LIMIT:
            raise InputError(
                "too-large", "the steps are too much work together", where=f"steps[{number}]"
            )
        results.append({"ok": result.ok, "active": active, "reason": result.reason})
    return results


def _spelling(step: object) -> dict[str, str]:
    """How a step that was played writes the role that it activates, by the one written form."""
    played = cast("Mapping[str, str]", step)
    if played["do"] != "activate":
        return {}
    return {ground_atom(played["role"]).text: played["role"].strip()}


def _step(session: Session, step: object, place: str) -> Outcome:
    kind = Members(step, place, _FIELDS).text("do")
    if kind not in _STEPS:
        raise unknown("step", kind, _STEPS, where=f"{place}.do")
    fields, play = _STEPS[kind]
    members = Members(step, place, ("do", "at", *fields))
    time = members.whole("at")
    try:
        passed = None if time is None else session.advance(time)
    except InputError as error:
        raise placed(error, f"{place}.at") from None
    done = play(session, members)
    if passed is None or not passed.fallen:
        return done
    ended = (each.reason for each in passed.fallen)
    return Outcome(done.ok, sentences((*ended, done.reason)))


def _at(place: str, outcome: Callable[[], Outcome]) -> Outcome:
    try:
        return outcome()
    except InputError as error:
        raise placed(error, place, inner=False) from None


def _activate(session: Session, step: Members) -> Outcome:
    role = step.text("role")
    return _at(f"{step.place}.role", lambda: session.activate(role))


def _deactivate(session: Session, step: Members) -> Outcome:
    role = step.text("role")
    return _at(f"{step.place}.role", lambda: session.deactivate(role))


def _appoint(session: Session, step: Members) -> Outcome:
    name = step.text("appointment")
    issuer = step.text("issuer") if step.has("issuer") else ""
    starts, expires = step.whole("starts"), step.whole("expires")
    return _at(
        f"{step.place}.appointment",
        lambda: session.appoint(name, issuer=issuer, starts=starts, expires=expires),
    )


def _revoke(session: Session, step: Members) -> Outcome:
    name = step.text("appointment")
    issuer = step.text("issuer") if step.has("issuer") else None
    return _at(f"{step.place}.appointment", lambda: session.revoke(name, issuer=issuer))


def _set(session: Session, step: Members) -> Outcome:
    environment = step.object("env")
    return _at(f"{step.place}.env", lambda: session.set(environment))


def _permits(session: Session, step: Members) -> Outcome:
    privilege = step.text("privilege")
    return _at(f"{step.place}.privilege", lambda: session.permits(privilege))


def _wait(session: Session, _: Members) -> Outcome:
    return Outcome(True, f"it is {session.now}")


_STEPS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Session, Members], Outcome]]]] = {
    "activate": (("role",), _activate),
    "appoint": (("appointment", "issuer", "starts", "expires"), _appoint),
    "deactivate": (("role",), _deactivate),
    "permits": (("privilege",), _permits),
    "revoke": (("appointment", "issuer"), _revoke),
    "set": (("env",), _set),
    "wait": ((), _wait),
}
_FIELDS: Final = tuple(
    dict.fromkeys(["do", "at", *(name for names, _ in _STEPS.values() for name in names)])
)
