from django.apps import AppConfig


class ChangesConfig(AppConfig):
    name = "adminapp.changes"

    def ready(self) -> None:
        from adminapp.changes import settling
        from adminapp.core import journal

        journal.on_number(settling.number)
        journal.on_settle(settling.settle)
