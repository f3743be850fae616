"""The form of a rollout plan: stages in order, each with agents, a share of them and a wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms as fields
from django.http import QueryDict

from adminapp.console import forms
from adminapp.core.errors import Problem
from adminapp.distribution.models import RolloutPlan
from adminapp.distribution.rolloutplans import MAX_STAGES

SILENCE = 60
UNITS = ((86_400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))


class StageForm(forms.StyledForm):
    """One stage; one that says nothing is no stage."""

    agents = fields.MultipleChoiceField(
        label="These agents", required=False, widget=fields.CheckboxSelectMultiple
    )
    share = fields.IntegerField(
        label="Or fill up to this share of all agents, in percent",
        required=False,
        min_value=0,
        max_value=100,
    )
    wait = fields.IntegerField(
        label="Then wait",
        required=False,
        min_value=0,
        max_value=1_000_000,
        help_text="After every agent of the stage holds the policies. Seven days at most.",
    )
    unit = fields.TypedChoiceField(
        label="Counted in", coerce=int, choices=UNITS, initial=60, required=False, empty_value=60
    )

    def __init__(self, *args: Any, known: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["agents"].choices = [(name, name) for name in known]

    @property
    def said(self) -> bool:
        """Whether anything was filled in."""
        data = self.cleaned_data
        return bool(data.get("agents") or data.get("share") or data.get("wait"))

    def stage(self) -> dict[str, Any]:
        """The stage as a plan keeps it."""
        data = self.cleaned_data
        return {
            "agents": data["agents"],
            "share": data["share"] or 0,
            "wait_seconds": (data["wait"] or 0) * data["unit"],
        }

    @classmethod
    def showing(cls, stage: Mapping[str, Any], **kwargs: Any) -> StageForm:
        """A stage of a plan, its wait in the largest unit that divides it."""
        seconds = stage["wait_seconds"]
        unit = next((size for size, _name in UNITS if seconds and seconds % size == 0), 60)
        initial = {
            "agents": stage["agents"],
            "share": stage["share"] or None,
            "wait": seconds // unit or None,
            "unit": unit,
        }
        return cls(initial=initial, **kwargs)


class PlanForm(forms.VersionForm):
    """A whole plan; `version` is 0 where the domain had none when the page was opened."""

    count = fields.IntegerField(widget=fields.HiddenInput, min_value=0, max_value=MAX_STAGES)
    silence_seconds = fields.IntegerField(
        label="Stop when an agent has not answered for so many seconds",
        min_value=10,
        max_value=86_400,
        help_text="From 10 to 86400. An agent whose lease has ended is not waited for.",
    )

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        plan: RolloutPlan | None,
        known: Iterable[str],
        one_more: bool = False,
    ) -> None:
        self._known = list(known)
        held = [] if plan is None else plan.stages
        count = max(len(held), 1)
        super().__init__(
            data,
            initial={
                "version": 0 if plan is None else plan.version,
                "count": count,
                "silence_seconds": SILENCE if plan is None else plan.silence_seconds,
            },
        )
        if data is None:
            shown = held or [{"agents": [], "share": 0, "wait_seconds": 0}]
            self.stages = [
                StageForm.showing(each, prefix=f"stage-{number}", known=self._known)
                for number, each in enumerate(shown)
            ]
        else:
            self._read(data, one_more)

    def _read(self, data: QueryDict, one_more: bool) -> None:
        sent = data.get("count", "")
        number = int(sent) if sent.isascii() and sent.isdigit() and len(sent) < 3 else 1
        most = min(max(number, 1) + one_more, MAX_STAGES)
        self.data = data.copy()
        self.data["count"] = str(most)
        self.stages = [
            StageForm(data if place < number else None, prefix=f"stage-{place}", known=self._known)
            for place in range(most)
        ]

    @property
    def full(self) -> bool:
        """Whether no stage can be added."""
        return len(self.stages) >= MAX_STAGES

    def is_valid(self) -> bool:
        """Whether every part can be read; what it means is the service's to judge."""
        sound = [stage.is_valid() for stage in self.stages]
        return super().is_valid() and all(sound)

    def said(self) -> list[dict[str, Any]]:
        """The stages that say something, in order."""
        return [stage.stage() for stage in self.stages if stage.said]

    def take(self, problems: Iterable[Problem]) -> None:
        """Put what the service refused beside the stage that it concerns."""
        said = [stage for stage in self.stages if stage.said]
        others = []
        for problem in problems:
            parts = problem.pointer.strip("/").split("/")
            if parts[0] != "stages" or len(parts) < 2:
                others.append(problem)
                continue
            field = {"wait_seconds": "wait"}.get(parts[-1], parts[-1])
            said[int(parts[1])].take([Problem(f"/{field}", problem.message)])
        super().take(others)
