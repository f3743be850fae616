from django.apps import AppConfig


class ChangesConfig(AppConfig):
    name = "adminapp.changes"

    def ready(self) -> None:
        from adminapp.changes import erasure, settling
        from adminapp.core import journal
        from adminapp.identity import ports

        journal.on_number(settling.number)
        journal.on_settle(settling.settle)
        ports.add_eraser(erasure.forget)
