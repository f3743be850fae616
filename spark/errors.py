"""The pipeline's one exception."""

from __future__ import annotations


class PipelineError(Exception):
    """A run that cannot go on: bad input, a wrong key, a damaged file.

    The message is for a person: lower case, no full stop, never a token, a key or
    another content of a policy.
    """
