"""Forms: they read what a browser sent; the rules are the services'."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest

from adminapp.core.authority import AuthorityError
from adminapp.core.errors import AwaitingApproval, Invalid, Problem, ServiceError
from adminapp.identity.models import ApiToken, Principal
from adminapp.policies.models import Policy
from policyengine.bundles.encoded import MAX_LIMIT_COUNT, MAX_LIMIT_SECONDS


class StyledForm(forms.Form):
    """Gives every field Bootstrap's class and ties its help and errors to it for screen readers."""

    use_required_attribute = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            style(field.widget)

    def take(self, problems: Iterable[Problem]) -> None:
        """Put what a service refused beside the fields it concerns."""
        for problem in problems:
            name = problem.pointer.strip("/").split("/")[0]
            field = name if name in self.fields else None
            text = problem.message[:1].upper() + problem.message[1:]
            if problem.suggestion:
                text += f". Did you mean {problem.suggestion}?"
            self.add_error(field, text)


def style(widget: forms.Widget) -> None:
    """Give a widget Bootstrap's class."""
    if isinstance(widget, (forms.CheckboxInput, forms.CheckboxSelectMultiple, forms.RadioSelect)):
        widget.attrs.setdefault("class", "form-check-input")
    elif isinstance(widget, forms.Select):
        widget.attrs.setdefault("class", "form-select")
    elif not isinstance(widget, forms.HiddenInput):
        existing = widget.attrs.get("class", "")
        widget.attrs["class"] = f"form-control {existing}".strip()


def version_field() -> forms.IntegerField:
    """The version that the page showed; the service refuses when it is no longer the newest."""
    return forms.IntegerField(widget=forms.HiddenInput)


class VersionForm(StyledForm):
    """A button that changes something: only the version of what the person saw."""

    version = version_field()


class StateForm(VersionForm):
    """A button that sets a state."""

    state = forms.CharField()

    def __init__(self, *args: Any, states: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._states = frozenset(states)

    def clean_state(self) -> str:
        state: str = self.cleaned_data["state"]
        if state not in self._states:
            raise forms.ValidationError("no such state")
        return state


class EndForm(StyledForm):
    """Revocation, confirmed by typing a name."""

    reason = forms.CharField(
        label="Why",
        max_length=500,
        help_text="Stands in the audit and in the signed receipt.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    confirm = forms.CharField(
        label="Type the name to confirm",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )

    def __init__(self, *args: Any, name: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = name
        self.fields["confirm"].widget.attrs["data-confirm"] = name

    def clean_confirm(self) -> str:
        typed: str = self.cleaned_data["confirm"].strip()
        if typed != self._name:
            raise forms.ValidationError(f"This is not the name; type {self._name} to confirm.")
        return typed


class BurnForm(EndForm):
    """Another alias for an attribute, confirmed by typing its name."""

    reason = forms.CharField(
        label="Why",
        max_length=500,
        help_text="Stands in the audit.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


class RevokeForm(EndForm, VersionForm):
    """Revocation of a principal as it was when the page was opened."""


class TokenForm(StyledForm):
    """A new token for programs."""

    name = forms.CharField(
        label="Name", max_length=64, help_text="What it is for, so that you know it again."
    )
    scopes = forms.MultipleChoiceField(
        label="May",
        choices=[(scope, scope) for scope in ApiToken.SCOPES],
        widget=forms.CheckboxSelectMultiple,
        initial=["read"],
    )
    days = forms.TypedChoiceField(
        label="Ends after",
        coerce=int,
        choices=[(7, "7 days"), (30, "30 days"), (90, "90 days"), (365, "a year")],
        initial=90,
    )


class PolicyForm(VersionForm):
    """A policy as a person fills it in."""

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    name = forms.CharField(
        label="Name", max_length=64, help_text="Short and lasting; it stands in files and reports."
    )
    title = forms.CharField(label="Title", max_length=200, required=False)
    action = forms.ChoiceField(
        label="Permits to",
        choices=[
            (Policy.Action.SUBSCRIBE, "receive events"),
            (Policy.Action.PUBLISH, "publish events"),
            (Policy.Action.ADVERTISE, "advertise the type"),
            (Policy.Action.DEFINE, "define types below it"),
        ],
    )
    event_type = forms.ChoiceField(
        label="Event type", help_text="Holds for this type and every type below it."
    )
    expression = forms.CharField(
        label="Condition",
        strip=False,
        max_length=20_000,
        help_text="Who, as subject.…, which events, as event.…, and when, as env.…; for example "
        'subject.role == "airline" && event.carrier == subject.carrier',
        widget=forms.Textarea(
            attrs={
                "rows": 4,
                "class": "code",
                "spellcheck": "false",
                "autocapitalize": "off",
                "autocomplete": "off",
            }
        ),
    )
    restrict = forms.ChoiceField(
        label="Attributes",
        choices=[("all", "Every attribute"), ("some", "Only these")],
        widget=forms.RadioSelect,
        initial="all",
    )
    attributes = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple, label="Which attributes"
    )
    enabled = forms.BooleanField(label="In force", required=False, initial=True)
    valid_from = forms.DateTimeField(
        label="From", required=False, widget=forms.DateTimeInput(attrs={"type": "datetime-local"})
    )
    valid_until = forms.DateTimeField(
        label="Until", required=False, widget=forms.DateTimeInput(attrs={"type": "datetime-local"})
    )
    limit_count = forms.IntegerField(
        label="At most this many events",
        required=False,
        min_value=1,
        max_value=MAX_LIMIT_COUNT,
        help_text="Of each publisher. Only for a policy to publish; empty is as many as it likes.",
    )
    limit_seconds = forms.IntegerField(
        label="In this many seconds", required=False, min_value=1, max_value=MAX_LIMIT_SECONDS
    )

    def __init__(
        self,
        *args: Any,
        types: Iterable[tuple[str, str]],
        attributes: Iterable[str],
        renamable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.fields["event_type"].choices = list(types)
        self.fields["attributes"].choices = [(name, name) for name in attributes]
        for name in ("valid_from", "valid_until"):
            self.fields[name].widget.format = "%Y-%m-%dT%H:%M"
        if not renamable:
            self.fields["name"].widget.attrs["readonly"] = True

    def clean(self) -> Mapping[str, Any]:
        data = super().clean()
        if data.get("restrict") == "some" and not data.get("attributes"):
            self.add_error("attributes", "Choose at least one attribute, or permit every one.")
        return data


class EventTypeForm(VersionForm):
    """What may be said about a type in words."""

    title = forms.CharField(label="Title", max_length=200, required=False)
    description = forms.CharField(
        label="Description", required=False, widget=forms.Textarea(attrs={"rows": 2})
    )


class ClassForm(VersionForm):
    """The privacy class of one attribute and the reason for it."""

    pia_class = forms.ChoiceField(label="Class")
    reason = forms.CharField(label="Why", required=False, max_length=1000)

    def __init__(self, *args: Any, classes: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["pia_class"].choices = [(name, name) for name in classes]


class PrincipalForm(VersionForm):
    """A publisher, subscriber, service or person; attributes come from the domain's model."""

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    name = forms.CharField(label="Name", max_length=64)
    kind = forms.ChoiceField(label="Kind", choices=Principal.Kind.choices)


class AppointForm(StyledForm):
    """An appointment given to a principal from now on."""

    name = forms.CharField(
        label="Appoint as", max_length=500, widget=forms.TextInput(attrs={"autocomplete": "off"})
    )
    ends = forms.DateTimeField(
        label="Until",
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
    )

    def __init__(self, *args: Any, known: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.known = list(known)
        self.fields["name"].widget.attrs["list"] = "known-appointments"


def tell(request: HttpRequest, error: ServiceError, begin: str = "Nothing was changed") -> None:
    """Say on the next page what a service refused; what waits for a second person goes on up.

    Raises:
        AwaitingApproval: the middleware leads to the change set that waits.
    """
    if isinstance(error, AwaitingApproval):
        raise error
    if isinstance(error, Invalid):
        messages.error(request, f"{begin}. " + " ".join(said_by(error)))
    elif isinstance(error, AuthorityError):
        messages.error(request, f"{begin}: the trusted authority does not answer.")
    else:
        messages.error(request, f"{begin}: {error.message}.")


def said_by(error: Invalid) -> list[str]:
    """What a service refused, as sentences."""
    sentences = []
    for problem in error.problems:
        text = problem.message[:1].upper() + problem.message[1:]
        sentences.append(text if text.endswith((".", "?")) else f"{text}.")
    return sentences
