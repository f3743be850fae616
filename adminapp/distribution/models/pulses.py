"""Signs of life of what runs beside the web server."""

from __future__ import annotations

from django.db import models


class Pulse(models.Model):
    """When something said last that it is alive."""

    name = models.CharField(max_length=32, unique=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} at {self.at}"
