from django.apps import AppConfig


class IdentityConfig(AppConfig):
    name = "adminapp.identity"

    def ready(self) -> None:
        # Names the permissions, so that templates and `user.has_perm` know them.
        from django.contrib.auth.signals import user_logged_in

        from adminapp.core import journal
        from adminapp.identity import (
            documents,
            permissions,  # noqa: F401
            ports,
            stepup,
        )

        journal.on_settle(ports.verify_waiting)
        documents.register_all()
        user_logged_in.connect(stepup.on_sign_in, dispatch_uid="identity.stepup")
