"""ASGI entry point: `uvicorn adminapp.config.asgi:application`."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adminapp.config.settings")

django_application = get_asgi_application()

# Settings are complete only now.
from django.conf import settings  # noqa: E402

from adminapp.core.bodies import BoundedBodies  # noqa: E402

# Views bound their own bodies further; a multipart body has borders around its file.
LARGEST = max(settings.UPLOAD_LIMIT, settings.IMPORT_LIMIT) + 2**16
application = BoundedBodies(django_application, LARGEST)
