#!/usr/bin/env python
"""Command line of the control plane, for operators."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adminapp.config.settings")
    from django.core.management import execute_from_command_line

    from adminapp.core import journal

    with journal.source("command"):
        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
