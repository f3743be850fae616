"""The lists of the console, sorted and cut into pages by django-tables2."""

from __future__ import annotations

from typing import Any, TypeVar

import django_tables2 as tables
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from adminapp.console import words
from adminapp.console.templatetags.console import chip, clock, moment

ROWS_PER_PAGE = 25
T = TypeVar("T", bound=tables.Table)


def configured(request: HttpRequest, table: T) -> T:
    """The table with the order and the page that the address asks for."""
    tables.RequestConfig(request, paginate={"per_page": ROWS_PER_PAGE}).configure(table)
    return table


class ConsoleTable(tables.Table):
    """The look that all lists share."""

    def __init__(self, data: Any) -> None:
        super().__init__(data, attrs={"class": "table"}, template_name="partials/table.html")


def _link(url: str, text: Any, note: Any = "") -> SafeString:
    shown = format_html('<a class="primary" href="{}">{}</a>', url, text)
    return format_html('{}<span class="row-note">{}</span>', shown, note) if note else shown


class PolicyTable(ConsoleTable):
    name = tables.Column(verbose_name="Policy")
    action = tables.Column()
    event_type = tables.Column(order_by="event_type__name", verbose_name="Event type")
    expression = tables.Column(verbose_name="Condition", orderable=False)
    attributes = tables.Column(orderable=False, empty_values=())
    enabled = tables.Column(verbose_name="State")

    def render_name(self, record: Any) -> SafeString:
        url = reverse("console:policy", args=[record.domain.name, record.name])
        return _link(url, record.name, record.title)

    def render_action(self, value: str, record: Any) -> SafeString:
        return chip("action", record.action)

    def render_expression(self, value: str) -> SafeString:
        return format_html("<code>{}</code>", value)

    def render_attributes(self, record: Any) -> str:
        if record.attributes is None:
            return "all"
        return words.listing(list(record.attributes)) or "none"

    def render_enabled(self, record: Any) -> SafeString:
        return chip("enabled", "yes" if record.enabled else "no")


class PrincipalTable(ConsoleTable):
    name = tables.Column(verbose_name="Principal")
    kind = tables.Column()
    attributes = tables.Column(orderable=False, empty_values=())
    homes = tables.Column(verbose_name="Home agents", orderable=False, empty_values=())
    credentials = tables.Column(
        accessor="sealing_key", order_by="sealing_key", empty_values=(), verbose_name="Keys"
    )
    state = tables.Column()

    def render_name(self, record: Any) -> SafeString:
        url = reverse("console:principal", args=[record.domain.name, record.name])
        return _link(url, record.name)

    def render_kind(self, record: Any) -> str:
        return words.term("kind", record.kind).label

    def render_attributes(self, record: Any) -> str:
        return ", ".join(f"{name} {value}" for name, value in record.attributes.items()) or "none"

    def render_homes(self, record: Any) -> str:
        return ", ".join(home.agent.name for home in record.homes.all()) or "none yet"

    def render_credentials(self, record: Any) -> str:
        return "registered" if record.sealing_key else "not yet"

    def render_state(self, record: Any) -> SafeString:
        return chip("principal", record.state)


class ChangeSetTable(ConsoleTable):
    id = tables.Column(verbose_name="Change set")
    state = tables.Column()
    author = tables.Column(order_by="author__username", verbose_name="By", empty_values=())
    source = tables.Column(verbose_name="From")
    revision = tables.Column(default="")
    created = tables.Column(verbose_name="When")

    def render_id(self, record: Any) -> SafeString:
        url = reverse("console:change-set", args=[record.domain_name, record.pk])
        return _link(url, record.pk, record.message)

    def render_state(self, record: Any) -> SafeString:
        if record.review == "due":
            return chip("change-set", "submitted")
        return chip("change-set", record.state)

    def render_author(self, record: Any) -> str:
        return record.author.get_username() if record.author else "the system"

    def render_created(self, value: Any) -> Any:
        return moment(value)


class RevocationTable(ConsoleTable):
    what = tables.Column(
        order_by="principal__name", verbose_name="What", accessor="pk", empty_values=()
    )
    kind = tables.Column()
    state = tables.Column()
    reason = tables.Column(orderable=False)
    actor = tables.Column(order_by="actor__username", verbose_name="By", empty_values=())
    created = tables.Column(verbose_name="Began")
    completed = tables.Column(empty_values=(), verbose_name="Took")

    def render_what(self, record: Any) -> SafeString:
        url = reverse("console:revocation", args=[record.domain.name, record.uid])
        return _link(url, record.what)

    def render_kind(self, record: Any) -> str:
        return str(record.get_kind_display())

    def render_state(self, record: Any) -> SafeString:
        return chip("revocation", record.state)

    def render_actor(self, record: Any) -> str:
        return record.actor.get_username() if record.actor else "the system"

    def render_created(self, value: Any) -> Any:
        return moment(value)

    def render_completed(self, record: Any) -> str:
        if record.completed is None:
            return "still running"
        return words.duration((record.completed - record.created).total_seconds())


class JobTable(ConsoleTable):
    uid = tables.Column(verbose_name="Job", orderable=False)
    cause = tables.Column()
    epoch = tables.Column(order_by="epoch__number")
    state = tables.Column()
    rows_done = tables.Column(
        verbose_name="Encodings", attrs={"td": {"class": "num"}, "th": {"class": "num"}}
    )
    started = tables.Column(empty_values=())
    finished = tables.Column(verbose_name="Took", empty_values=())

    def render_uid(self, record: Any) -> SafeString:
        url = reverse("console:job", args=[record.domain.name, record.uid])
        return _link(url, record.uid[:8])

    def render_epoch(self, record: Any) -> int:
        number: int = record.epoch.number
        return number

    def render_state(self, record: Any) -> SafeString:
        return chip("job", record.state)

    def render_rows_done(self, record: Any) -> Any:
        said = f"{record.rows_done:,} of {record.rows_total:,}"
        if record.state != "running":
            return said
        return format_html(
            '{}<progress max="{}" value="{}" aria-label="Job {}"></progress>',
            said,
            record.rows_total or 1,
            record.rows_done,
            record.uid[:8],
        )

    def render_started(self, record: Any) -> Any:
        return moment(record.started)

    def render_finished(self, record: Any) -> str:
        if record.started is None or record.finished is None:
            return "not yet"
        return words.duration((record.finished - record.started).total_seconds())


class AuditTable(ConsoleTable):
    sequence = tables.Column(verbose_name="No.")
    at = tables.Column(verbose_name="When")
    actor_name = tables.Column(verbose_name="Who")
    action = tables.Column(verbose_name="Did what")
    object_name = tables.Column(verbose_name="To what", empty_values=())
    domain_name = tables.Column(verbose_name="Domain", empty_values=())

    def render_sequence(self, record: Any) -> SafeString:
        return _link(reverse("console:audit-entry", args=[record.sequence]), record.sequence)

    def render_at(self, value: Any) -> Any:
        return clock(value)

    def render_action(self, value: str) -> str:
        return words.action(value)

    def render_object_name(self, record: Any) -> str:
        return f"{record.object_type} {record.object_name}".strip()

    def render_domain_name(self, record: Any) -> str:
        return record.domain_name or "platform"
