from django.apps import AppConfig


class EnrolmentConfig(AppConfig):
    name = "adminapp.enrolment"

    def ready(self) -> None:
        from adminapp.enrolment import erasure
        from adminapp.identity import ports

        ports.add_eraser(erasure.forget)
