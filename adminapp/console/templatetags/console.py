"""What the console's templates need beyond Django's own tags: icons, chips, times, digests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from adminapp.console import keyforms, vendor, words
from adminapp.policies.access import Access

register = template.Library()


@register.simple_tag
def vendored(name: str) -> str:
    """The address of a front-end part that npm installed."""
    return vendor.address(name)


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """One icon of the sprite; decoration only, the words beside it carry the meaning."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true"><use href="{}#{}"></use></svg>',
        extra,
        vendor.address("icons.svg"),
        name,
    )


@register.simple_tag
def chip(kind: str, value: str) -> SafeString:
    """A state as a word with a colour and an icon; `kind` names the vocabulary in `words`."""
    term = words.term(kind, value)
    return format_html(
        '<span class="chip" data-tone="{}">{}{}</span>',
        term.tone,
        icon(term.icon) if term.icon else "",
        term.label,
    )


@register.filter
def said(value: str, kind: str) -> str:
    """The plain-English word for a stored value."""
    return words.term(kind, value).label


@register.filter
def digest(value: str) -> SafeString | str:
    """The first characters of a digest, the whole of it on hover."""
    if not value:
        return "none yet"
    return format_html('<code title="{}">{}</code>', value, value[:10])


@register.filter
def moment(value: datetime | None) -> SafeString | str:
    """A point in time as `<time>`: exact on hover, `n s ago` kept fresh by the page's script."""
    if not value:
        return "never"
    return format_html(
        '<time datetime="{}" title="{}" data-ago>{}</time>',
        value.isoformat(),
        timezone.localtime(value).strftime("%Y-%m-%d %H:%M:%S %Z"),
        words.ago((timezone.now() - value).total_seconds()),
    )


@register.filter
def clock(value: datetime | None) -> SafeString | str:
    """A point in time to the second with its zone, for histories and timelines."""
    if not value:
        return "not yet"
    local = timezone.localtime(value)
    return format_html(
        '<time datetime="{}">{}</time>', value.isoformat(), local.strftime("%Y-%m-%d %H:%M:%S %Z")
    )


@register.filter
def hms(value: datetime | None) -> SafeString | str:
    """The time of a day, where the day is known; the whole on hover."""
    if not value:
        return "not yet"
    local = timezone.localtime(value)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        value.isoformat(),
        local.strftime("%Y-%m-%d %H:%M:%S %Z"),
        local.strftime("%H:%M:%S %Z"),
    )


@register.filter
def duration(seconds: float | None) -> str:
    """A length of time in words."""
    return "unknown" if seconds in {None, ""} else words.duration(seconds)


@register.filter
def plain(value: Any) -> str:
    """A stored value as a person would write it."""
    if value is None or value == "":
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(item) for item in value) or "nothing"
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return str(value)


@register.simple_tag
def spoken(code: str) -> str:
    """An audit action in words."""
    return words.action(code)


@register.simple_tag
def why(code: str) -> str:
    """Why an agent refused something, in words."""
    return words.reason(code)


@register.simple_tag
def tone(kind: str, value: str) -> str:
    """The colour of a state."""
    return words.term(kind, value).tone


@register.filter
def access_rows(lines: Iterable[Access]) -> list[words.AccessRow]:
    """Lines of access, those put together that differ in the event type alone."""
    return words.access_rows(lines)


@register.filter
def ticks(text: str) -> SafeString:
    """A message in which what stands in backticks is shown as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return format_html("{}", text)
    return format_html_join(
        "",
        "{}",
        (
            (format_html("<code>{}</code>", part) if index % 2 else part,)
            for index, part in enumerate(parts)
        ),
    )


@register.filter
def type_in_words(declared: dict[str, Any]) -> str:
    """A declared attribute type in words."""
    return words.type_in_words(declared)


@register.filter
def audience(address: str) -> str:
    """`agent:alpha` -> `agent alpha`."""
    return address.replace(":", " ", 1)


@register.filter
def stage_name(stage: Mapping[str, Any]) -> str:
    """One stage of a job, by its name."""
    return str(stage.get("stage") or stage.get("name") or "").capitalize()


_SCOPES = {
    "all": "everything, in a new epoch",
    "agents": "agents, under other keys",
    "attribute": "an attribute, under another alias",
    "subjects": "single clients",
}


@register.filter
def key_in_words(reference: str) -> str:
    """A key's reference as people call it."""
    return keyforms.key_in_words(reference)


@register.filter
def job_scope(job: Any) -> str:
    """What a job encodes anew, with the names of what it is about."""
    named = [*job.targets.get("agents", ()), *job.targets.get("attributes", ())]
    names = f": {', '.join(named)}" if named else ""
    return f"{_SCOPES[job.scope]}{names}"


@register.filter
def stage_time(value: Any) -> str:
    """When a stage was reported: an ISO 8601 text, or seconds since 1970."""
    if isinstance(value, (int, float)):
        moment_of = datetime.fromtimestamp(value, tz=UTC)
    else:
        try:
            moment_of = datetime.fromisoformat(str(value))
        except ValueError:
            return str(value or "")
    return timezone.localtime(moment_of).strftime("%H:%M:%S %Z")


@register.filter
def as_access(lines: Iterable[Mapping[str, Any]]) -> list[Access]:
    """Access as a kept plan has it, in the form that the list of access shows."""
    return [
        Access(
            principal=line["principal"],
            handle="",
            action=line["action"],
            type=line["type"],
            attributes=tuple(line["attributes"]),
            condition=line["condition"],
        )
        for line in lines
    ]
