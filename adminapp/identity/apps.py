from django.apps import AppConfig


class IdentityConfig(AppConfig):
    name = "adminapp.identity"

    def ready(self) -> None:
        # Names the permissions, so that templates and `user.has_perm` know them.
        from adminapp.identity import permissions  # noqa: F401
