"""Forms about keys: when one is renewed by itself, and ending one generation of it at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms as fields

from adminapp.console import forms
from adminapp.distribution import rotation
from adminapp.distribution.models import RotationSchedule
from adminapp.trustgroups import mapping
from adminapp.trustgroups.models import KeyEpoch

_KINDS = {
    rotation.ALL: "every key of agents without dates of its own",
    rotation.BLIND: "the keys of hidden attributes",
    rotation.ENCODINGS: "the keys of anonymous sets",
}


def key_in_words(reference: str) -> str:
    """A key's reference (`key:tail`, `overlay:a`, `all`) as people call it."""
    kind, _separator, name = reference.partition(":")
    if not name:
        return _KINDS.get(reference, reference)
    return f"key {name}" if f"{kind}:" == mapping.KEY else f"the key of overlay {name}"


def choices(references: Iterable[str]) -> list[tuple[str, str]]:
    """What can have dates: the keys of a domain, and what is said of several at once."""
    found = [(reference, key_in_words(reference)) for reference in references]
    return [*found, *((name, words) for name, words in _KINDS.items())]


class RotationForm(forms.VersionForm):
    """When a key is renewed by itself; `version` is 0 where nothing said so yet."""

    key = fields.ChoiceField(label="Key")
    every_days = fields.IntegerField(
        label="Every so many days", min_value=1, max_value=3650, initial=90
    )
    jitter_percent = fields.IntegerField(
        label="Up to so many percent earlier",
        min_value=0,
        max_value=50,
        initial=10,
        help_text="Drawn anew each time, so that nobody can foretell the day.",
    )

    def __init__(self, *args: Any, keys: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["key"].choices = keys


class EndEpochForm(forms.EndForm, forms.VersionForm):
    """One generation of a key, ended at once as it was when the page was opened."""

    reason = fields.CharField(
        label="Why",
        max_length=180,
        help_text="Stands in the audit and in the history of the key.",
        widget=fields.TextInput(attrs={"autocomplete": "off"}),
    )


@dataclass(frozen=True)
class ScheduleRow:
    """Dates of one key, and the form that changes them."""

    row: RotationSchedule
    title: str
    form: RotationForm


def schedule_rows(
    rows: Iterable[RotationSchedule], keys: Sequence[tuple[str, str]], bound: RotationForm | None
) -> list[ScheduleRow]:
    """Each key with dates; the form that was sent and refused stands in its place."""
    sent = "" if bound is None else bound.data.get("key", "")
    return [
        ScheduleRow(
            row,
            key_in_words(row.key),
            _in_row(bound if bound is not None and sent == row.key else _showing(row, keys), row),
        )
        for row in rows
    ]


def _showing(row: RotationSchedule, keys: Sequence[tuple[str, str]]) -> RotationForm:
    initial = rotation.document(row) | {"version": row.version}
    return RotationForm(keys=[*keys, (row.key, row.key)], initial=initial)


def _in_row(form: RotationForm, row: RotationSchedule) -> RotationForm:
    """In a row of a table there is no place for labels, and the form's element stands elsewhere."""
    form.auto_id = f"id_rotation_{row.pk}_%s"
    for name in ("every_days", "jitter_percent"):
        label = f"{form.fields[name].label}, for {key_in_words(row.key)}"
        form.fields[name].help_text = ""
        form.fields[name].widget.attrs |= {"aria-label": label, "form": f"rotation-{row.pk}"}
    return form


def name_of(epoch: KeyEpoch) -> str:
    """What is typed to end it: the key's own name and the number."""
    return f"{epoch.group_ref.partition(':')[2]} {epoch.number}"
