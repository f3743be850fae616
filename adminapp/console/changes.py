"""Change sets: what would this do, to whom, and who agrees?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from adminapp.audit import selectors as audit
from adminapp.changes import selectors, services
from adminapp.changes.models import ChangeSet
from adminapp.console import diffs
from adminapp.console.pages import in_domain, managers_only, show
from adminapp.console.tables import ChangeSetTable, configured
from adminapp.core.errors import Conflict, Invalid, ServiceError
from adminapp.identity.models import Domain

SHOWN = 200


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    rows = selectors.change_sets(request.user, domain)
    waiting = request.GET.get("show") == "waiting"
    if waiting:
        rows = rows.waiting()
    return show(
        request,
        "console/changes/index.html",
        title="Change sets",
        area="change-sets",
        question="What was changed as a whole, and what waits for a second person?",
        domain=domain,
        table=configured(request, ChangeSetTable(rows.order_by("-pk"))),
        waiting=waiting,
    )


@require_safe
@in_domain
def detail(request: HttpRequest, domain: Domain, pk: int) -> HttpResponse:
    row = _find(request, domain, pk)
    return show(
        request,
        "console/changes/detail.html",
        title=f"Change set {row.pk}",
        area="change-sets",
        question="What would this do, to whom?" if row.plan else "What did this do?",
        domain=domain,
        row=row,
        objects=_objects(row),
        more=max(0, _count(row) - SHOWN),
        effects=(row.plan or {}).get("effects") or {},
        problems=(row.plan or {}).get("problems") or [],
        own=row.author_id == request.user.pk,
        stale=row.state == ChangeSet.State.SUBMITTED and row.base_revision != domain.revision,
    )


@require_POST
@in_domain
@managers_only
def decide(request: HttpRequest, domain: Domain, pk: int, deed: str) -> HttpResponse:
    """Plan, approve, reject, withdraw or undo; the form says which version was looked at."""
    row = _find(request, domain, pk)
    version = request.POST.get("version", "")
    values: dict[str, Any] = {
        "actor": request.user,
        "change_set": row,
        "expected_version": int(version) if version.isdecimal() else row.version,
    }
    if deed in _WITH_COMMENT:
        values["comment"] = request.POST.get("comment", "")
    try:
        _DEEDS[deed](**values)
    except Conflict as error:
        messages.error(request, f"Nothing was done: {error.message}.")
    except Invalid as error:
        for problem in error.problems:
            messages.error(request, f"{problem.pointer} {problem.message}".strip())
    except ServiceError as error:
        messages.error(request, f"Nothing was done: {error.message}.")
    else:
        messages.success(request, _DONE[deed])
    return HttpResponseRedirect(reverse("console:change-set", args=[domain.name, row.pk]))


_DEEDS: dict[str, Callable[..., Any]] = {
    "plan": services.plan,
    "submit": services.submit,
    "approve": services.approve_any,
    "reject": services.reject,
    "withdraw": services.withdraw,
    "undo": services.undo_urgent,
}
_WITH_COMMENT = frozenset({"approve", "reject", "undo"})
_DONE = {
    "plan": "The plan below is as things stand now.",
    "submit": "Applied.",
    "approve": "Approved.",
    "reject": "Rejected; its author was told.",
    "withdraw": "Withdrawn.",
    "undo": "The grant was taken back.",
}


def _find(request: HttpRequest, domain: Domain, pk: int) -> ChangeSet:
    return get_object_or_404(selectors.change_sets(request.user, domain), pk=pk)


def _count(row: ChangeSet) -> int:
    if row.state == ChangeSet.State.APPLIED:
        return audit.search(change_set=row.pk).exclude(object_type="change-set").count()
    return len(row.operations)


def _objects(row: ChangeSet) -> list[dict[str, Any]]:
    """What it did to each object, or would do."""
    if row.state == ChangeSet.State.APPLIED:
        found = audit.search(change_set=row.pk).exclude(object_type="change-set")
        return [
            {
                "title": f"{entry.action.replace('.', ' ')}: {entry.object_name}",
                "changes": diffs.between(entry.before, entry.after),
            }
            for entry in found.order_by("sequence")[:SHOWN]
        ]
    planned = {(each["kind"], each["key"]): each for each in (row.plan or {}).get("changes", [])}
    return [_operation(each, planned.get((each["kind"], each["key"]))) for each in row.operations][
        :SHOWN
    ]


def _operation(operation: dict[str, Any], planned: dict[str, Any] | None) -> dict[str, Any]:
    verb = planned["op"] if planned else operation["op"]
    title = f"{verb} {operation['kind']}: {operation['key']}"
    if planned and planned["op"] == "update":
        changes = [
            diffs.Change(each["path"].strip("/"), _text(each["before"]), _text(each["after"]))
            for each in planned["diff"]
        ]
    else:
        changes = diffs.between(None, operation["document"]) if operation["document"] else []
    return {"title": title, "changes": changes}


def _text(value: Any) -> str:
    (change,) = diffs.between(None, {"value": value}) or [diffs.Change("value", None, "nothing")]
    return change.after or "nothing"
