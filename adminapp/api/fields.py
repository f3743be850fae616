"""Fields that name other objects by their natural names."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import NotFound

from adminapp.api.throttling import count_call
from adminapp.identity.models import Agent, Domain, Overlay


class NameField(serializers.CharField):
    """An object of the same domain, by name; the service or view looks it up."""

    def to_representation(self, value: Any) -> str:
        return str(getattr(value, "name", value))


class NamesField(serializers.ListField):
    """Several objects of the same domain, by name."""

    child = serializers.CharField(max_length=64)

    def to_representation(self, data: Any) -> list[str]:
        return sorted(each.name for each in data.all())


class DomainField(serializers.SlugRelatedField):
    """A domain by name. One that the caller may not see does not exist."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("slug_field", "name")
        if not kwargs.get("read_only"):
            kwargs.setdefault("queryset", Domain.objects.all())
        super().__init__(**kwargs)

    def get_queryset(self) -> Any:
        return Domain.objects.visible_to(self.context["request"].user)

    def to_internal_value(self, data: Any) -> Domain:
        found = self.get_queryset().filter(name=data).first() if isinstance(data, str) else None
        if found is None:
            raise NotFound
        count_call(self.context["request"], found)
        return found


class SharedField(serializers.SlugRelatedField):
    """An overlay or agent by name."""

    def __init__(self, model: type[Agent] | type[Overlay], **kwargs: Any) -> None:
        self.model = model
        super().__init__(slug_field="name", queryset=model.objects.all(), **kwargs)

    def get_queryset(self) -> Any:
        return self.model.objects.visible_to(self.context["request"].user)

    def __deepcopy__(self, memo: Any) -> SharedField:
        return type(self)(self.model, **{k: v for k, v in self._kwargs.items() if k != "model"})
