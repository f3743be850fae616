"""The environment of every test run, set before Django reads its settings.

Loaded with `-p` (pyproject.toml), because a conftest comes too late for pytest-django. The state
folder is a fresh one per run and goes with it.

Property tests draw the same examples in every run, on every machine, and no example has a limit of
time: what passed here passes there. `--hypothesis-profile=fresh` draws others.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

from hypothesis import HealthCheck, settings

os.environ["PORTCULLIS_ENV"] = "test"
os.environ["PORTCULLIS_VAR"] = tempfile.mkdtemp(prefix="portcullis-test-")
# People of a test sign in once; a busy machine may take longer than a password counts.
os.environ["PORTCULLIS_STEP_UP_SECONDS"] = "86400"
for _name in ("PORTCULLIS_SECRET_KEY", "PORTCULLIS_SECRET_KEY_FILE", "PORTCULLIS_ALLOWED_HOSTS"):
    os.environ.pop(_name, None)
_OWNER = os.getpid()

settings.register_profile("fresh", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "repeated", settings.get_profile("fresh"), derandomize=True, database=None
)
settings.load_profile("repeated")


def _remove(folder: str) -> None:
    if os.getpid() == _OWNER:
        shutil.rmtree(folder, ignore_errors=True)


atexit.register(_remove, os.environ["PORTCULLIS_VAR"])
