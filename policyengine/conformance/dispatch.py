"""From a line to its answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final, TypeAlias, cast

from policyengine.attributes import nearest, shown
from policyengine.conformance.fields import Fields, check_seed
from policyengine.conformance.reader import Line, Request, read
from policyengine.errors import InputError, PortcullisError

Result: TypeAlias = dict[str, object]
Handler: TypeAlias = Callable[[Fields], Result]

_ENVELOPE: Final = ("id", "op")
_UNEXPECTED: Final = "the line could not be processed"


@dataclass(frozen=True, slots=True)
class Operation:
    """What can be asked for.

    Args:
        module: module of this package that answers; loaded when it is first asked.
        function: its function from `Fields` to the result.
        required: fields beside `id` and `op`.
        optional: fields that may be left out; `seed` always may.
    """

    module: str
    function: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()

    def handler(self) -> Handler:
        """Return the function, loading what it needs."""
        found = import_module(f"policyengine.conformance.{self.module}")
        return cast(Handler, getattr(found, self.function))


OPERATIONS: Final[Mapping[str, Operation]] = {
    "evaluate": Operation("language", "answer_evaluate", ("attributes", "expression", "values")),
    "normalise": Operation("language", "answer_normalise", ("attributes", "expression")),
    "anonset.match": Operation(
        "anonymous", "answer_match", ("encoding", "attributes", "policy", "subject"), ("m", "k")
    ),
    "sde.match": Operation(
        "searchable", "answer_match", ("group", "attributes", "event", "filter")
    ),
    "kpabe.open": Operation(
        "attribute_based", "answer_event", ("mode", "attributes", "event", "filter", "payload")
    ),
    "cpabe.open": Operation(
        "attribute_based", "answer_payload", ("attributes", "policy", "subject", "payload")
    ),
    "ope.match": Operation(
        "ordered", "answer_match", ("scheme", "attributes", "subscriptions", "events")
    ),
    "roles.session": Operation("rights", "answer_session", ("policy", "steps")),
    "events.covers": Operation("typed_events", "answer_covers", ("types", "first", "second")),
    "events.restrict": Operation(
        "typed_events",
        "answer_restrict",
        ("types", "policy", "roles"),
        ("publication", "subscription"),
    ),
    "split.plan": Operation(
        "splits",
        "answer_plan",
        ("attributes", "risky", "colluding", "max_overlays"),
        ("encrypt_cost",),
    ),
    "split.roundtrip": Operation("splits", "answer_roundtrip", ("plan", "publication", "deliver")),
    "split.learns": Operation("splits", "answer_learns", ("plan", "publication", "colluding")),
    "bundle.apply": Operation("bundle_steps", "answer_apply", ("agent", "steps")),
}
"""Every operation by its name."""


class Responder:
    """Answers lines.

    `unexpected` counts the answers that only the last line of defence gave: an error that
    no check foresaw. Tests hold it at 0.

    Args:
        operations: what can be asked for, by name.
    """

    def __init__(self, operations: Mapping[str, Operation] = OPERATIONS) -> None:
        self.unexpected = 0
        self._operations = operations

    def answer(self, line: Line) -> bytes:
        """Return the answer to one line, as one line of ASCII JSON without its end.

        Args:
            line: what `lines` gave; nothing that it holds raises.
        """
        request = Request(None, {})
        try:
            request = read(line)
            return _written({"id": request.id, "ok": True, "result": self._result(request)})
        except InputError as error:
            return _failed(request, error)
        except PortcullisError as error:
            return _failed(request, InputError("invalid", str(error)))
        except (MemoryError, RecursionError):
            self.unexpected += 1
            return _failed(request, InputError("too-large", _UNEXPECTED))
        except Exception:  # noqa: BLE001 - the lines behind this one shall be answered
            self.unexpected += 1
            return _failed(request, InputError("invalid", _UNEXPECTED))

    def _result(self, request: Request) -> Result:
        if request.problem is not None:
            raise request.problem
        operation = self._operation(request.body)
        required = (*_ENVELOPE, *operation.required)
        fields = Fields(request.body, required, (*operation.optional, "seed"))
        check_seed(fields)
        return operation.handler()(fields)

    def _operation(self, body: Mapping[str, object]) -> Operation:
        # the operation comes first: which other fields belong to a line depends on it
        if "op" not in body:
            raise InputError("invalid", "the field `op` is missing", where="op")
        op = body["op"]
        if not isinstance(op, str):
            raise InputError("type", "the field `op` is no text", where="op")
        if op not in self._operations:
            close = nearest(op, self._operations)
            meant = f"; perhaps `{close}` was meant" if close else ""
            raise InputError(
                "unknown", f"{shown(op)} is no operation{meant}", where="op", suggestion=close
            )
        return self._operations[op]


def _failed(request: Request, error: InputError) -> bytes:
    problem = {"kind": error.kind, "message": error.message, "at": error.at}
    return _written({"id": request.id, "ok": False, "error": problem})


def _written(answer: Result) -> bytes:
    # ASCII: half a character of an id goes back as the escape that it came as
    return json.dumps(answer, allow_nan=False).encode("ascii")
