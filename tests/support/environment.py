"""The environment of every test run, set before Django reads its settings.

Loaded with `-p` (pyproject.toml), because a conftest comes too late for pytest-django. The state
folder is a fresh one per run and goes with it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

os.environ["PORTCULLIS_ENV"] = "test"
os.environ["PORTCULLIS_VAR"] = tempfile.mkdtemp(prefix="portcullis-test-")
# People of a test sign in once; a busy machine may take longer than a password counts.
os.environ["PORTCULLIS_STEP_UP_SECONDS"] = "86400"
for _name in ("PORTCULLIS_SECRET_KEY", "PORTCULLIS_SECRET_KEY_FILE", "PORTCULLIS_ALLOWED_HOSTS"):
    os.environ.pop(_name, None)
_OWNER = os.getpid()


def _remove(folder: str) -> None:
    if os.getpid() == _OWNER:
        shutil.rmtree(folder, ignore_errors=True)


atexit.register(_remove, os.environ["PORTCULLIS_VAR"])
