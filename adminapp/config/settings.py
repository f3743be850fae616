"""Settings of the control plane, from the environment (docs/operator-guide.md lists it all)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from adminapp.config import env

BASE_DIR = Path(__file__).resolve().parents[2]
ENVIRONMENT = env.environment()
PRODUCTION = ENVIRONMENT == "production"
VAR_DIR = Path(env.text("PORTCULLIS_VAR", str(BASE_DIR / "var"))).resolve()
VAR_DIR.mkdir(parents=True, exist_ok=True)
RUN_DIR = VAR_DIR / "run"

SECRET_KEY = env.secret_key(ENVIRONMENT, VAR_DIR)
# Seals the entries of the audit and the personal data in them: never in the database itself.
AUDIT_KEY = env.audit_key(VAR_DIR)
# The name that signed checkpoints of the audit bear, and the file that keeps them once more.
AUDIT_ORIGIN = env.text("PORTCULLIS_AUDIT_ORIGIN", "portcullis/audit")
AUDIT_WITNESS = Path(
    env.text("PORTCULLIS_AUDIT_WITNESS", str(VAR_DIR / "audit" / "checkpoints.jsonl"))
)
DEBUG = env.flag("PORTCULLIS_DEBUG") and ENVIRONMENT == "development"
ALLOWED_HOSTS = env.listing(
    "PORTCULLIS_ALLOWED_HOSTS",
    () if PRODUCTION else ("localhost", "127.0.0.1", "[::1]", "testserver"),
)
CSRF_TRUSTED_ORIGINS = env.listing("PORTCULLIS_TRUSTED_ORIGINS")
# How many reverse proxies stand in front: addresses in X-Forwarded-For beyond them are hearsay.
TRUSTED_PROXIES = env.integer("PORTCULLIS_TRUSTED_PROXIES", 0)

# Portcullis' own parts
AUTHORITY_SOCKET = Path(env.text("PORTCULLIS_AUTHORITY_SOCKET", str(RUN_DIR / "authority.sock")))
BROKERS_FILE = Path(env.text("PORTCULLIS_BROKERS_FILE", str(RUN_DIR / "brokers.json")))
# Who scrapes /metrics sends it; without one the address is there in development alone.
METRICS_TOKEN = env.text("PORTCULLIS_METRICS_TOKEN", "")
SPARK_MASTER = env.text("PORTCULLIS_SPARK_MASTER", "local[*]")
# Where Spark reads a snapshot's rows: files that all of its machines see, or this database.
SPARK_SOURCE = env.choice("PORTCULLIS_SPARK_SOURCE", ("parquet", "jdbc"))
SPARK_JDBC_DRIVER = env.text("PORTCULLIS_SPARK_JDBC_DRIVER", "/usr/share/java/postgresql.jar")
# A file of settings in the form of `spark-defaults.conf`; they win over Portcullis' own.
SPARK_SETTINGS = env.text("PORTCULLIS_SPARK_SETTINGS", "")
SPARK_THRESHOLD = env.integer("PORTCULLIS_SPARK_THRESHOLD", 50_000)
# Who compares order-preserving ciphertexts: agents (`sbm1`) or a comparator (`sbm2`).
ORDER_SCHEME = env.choice("PORTCULLIS_ORDER_SCHEME", ("sbm1", "sbm2"))
# How long events of an old epoch are still accepted once publishers were told of the new one: at
# least the first, and up to the second while a publisher has not acknowledged.
DRAIN_SECONDS = env.integer("PORTCULLIS_DRAIN_SECONDS", 20)
DRAIN_LIMIT_SECONDS = env.integer("PORTCULLIS_DRAIN_LIMIT_SECONDS", 60)
# How long it is kept who enforced which revision when.
ENFORCEMENT_DAYS = env.integer("PORTCULLIS_ENFORCEMENT_DAYS", 400)

# What a domain may have and do unless an operator gives it a quota of its own.
MAX_OBJECTS = env.integer("PORTCULLIS_MAX_OBJECTS", 1_000_000)
MAX_PRINCIPALS = env.integer("PORTCULLIS_MAX_PRINCIPALS", 1_000_000)
DOMAIN_REQUESTS_PER_MINUTE = env.integer("PORTCULLIS_DOMAIN_REQUESTS", 6000, minimum=1)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django.forms",
    "csp",
    "django_filters",
    "django_htmx",
    "django_tables2",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "rest_framework",
    "rules",
    "adminapp.core",
    "adminapp.audit",
    "adminapp.outbox",
    "adminapp.identity",
    "adminapp.enrolment",
    "adminapp.catalog",
    "adminapp.roles",
    "adminapp.trustgroups",
    "adminapp.agreements",
    "adminapp.policies",
    "adminapp.privacy",
    "adminapp.distribution",
    "adminapp.changes",
    "adminapp.webhooks",
    "adminapp.api",
    "adminapp.console",
    "tasks",
]

MIDDLEWARE = [
    "adminapp.core.http.remember_door",
    "django.middleware.security.SecurityMiddleware",
    "adminapp.core.source.SourceMiddleware",
    "adminapp.core.static.StaticFiles",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "adminapp.console.middleware.ShowWhatWaits",
]

ROOT_URLCONF = "adminapp.config.urls"
ASGI_APPLICATION = "adminapp.config.asgi.application"
WSGI_APPLICATION = "adminapp.config.wsgi.application"
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

# Database, cache
DATABASES = {
    "default": env.database(
        env.text("PORTCULLIS_DATABASE_URL", f"sqlite:///{VAR_DIR / 'portcullis.sqlite3'}"),
        VAR_DIR,
    )
}
if SPARK_SOURCE == "jdbc" and DATABASES["default"].get("HOST", "")[:1] in {"", "/"}:
    raise ImproperlyConfigured(
        "PORTCULLIS_SPARK_SOURCE is jdbc: PORTCULLIS_DATABASE_URL must be postgresql:// with a host"
    )
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {"default": env.cache(env.text("PORTCULLIS_CACHE_URL", ""))}

# Sign-in
AUTH_USER_MODEL = "identity.User"
AUTHENTICATION_BACKENDS = [
    "adminapp.identity.backends.ThrottledBackend",
    "rules.permissions.ObjectPermissionBackend",
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = LOGIN_URL
# Failures within the window after which a name or an address has to wait.
SIGN_IN_FAILURES_PER_NAME = env.integer("PORTCULLIS_SIGN_IN_FAILURES", 5, minimum=1)
SIGN_IN_FAILURES_PER_ADDRESS = 20
SIGN_IN_WINDOW_SECONDS = 15 * 60
# What is hard to take back asks a browser's session for the password again after this.
STEP_UP_SECONDS = env.integer("PORTCULLIS_STEP_UP_SECONDS", 15 * 60, minimum=60)

# Transport and browser
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = PRODUCTION
SESSION_COOKIE_AGE = 12 * 3600
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = PRODUCTION
SECURE_SSL_REDIRECT = PRODUCTION and env.flag("PORTCULLIS_SSL_REDIRECT", True)
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if PRODUCTION else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = PRODUCTION
SECURE_HSTS_PRELOAD = PRODUCTION
if TRUSTED_PROXIES:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        # Bootstrap's and Swagger's style sheets carry small pictures as data addresses.
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 2**20
# Files (organisations, lists of principals) may be larger; beyond this nothing is read at all.
UPLOAD_LIMIT = env.integer("PORTCULLIS_UPLOAD_LIMIT", 32 * 2**20, minimum=2**20)

# Files with principals are written to disk as they come, and may be larger still.
IMPORT_DIR = VAR_DIR / "imports"
IMPORT_LIMIT = env.integer("PORTCULLIS_IMPORT_LIMIT", 64 * 2**20, minimum=2**10)
IMPORTS_KEPT = timedelta(days=30)

# Language, time
LANGUAGE_CODE = "en"
USE_I18N = True
USE_TZ = True
TIME_ZONE = env.text("PORTCULLIS_TIME_ZONE", "UTC")

# Static files
STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [path for path in [BASE_DIR / "static"] if path.is_dir()]
WHITENOISE_USE_FINDERS = not PRODUCTION
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_ALLOW_ALL_ORIGINS = False
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": (
            "whitenoise.storage.CompressedManifestStaticFilesStorage"
            if PRODUCTION
            else "django.contrib.staticfiles.storage.StaticFilesStorage"
        )
    },
}
STATIC_ROOT.mkdir(exist_ok=True)

# Webhooks lead to the public network; to this machine only where people develop.
WEBHOOK_LOOPBACK = not PRODUCTION

# REST
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "adminapp.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["adminapp.api.permissions.SignedIn"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["adminapp.api.parsers.StrictJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "adminapp.api.pagination.Cursor",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "adminapp.api.schema.Schema",
    "DEFAULT_THROTTLE_CLASSES": [
        "adminapp.api.throttling.UserThrottle",
        "adminapp.api.throttling.AddressThrottle",
    ],
    "DEFAULT_THROTTLE_RATES": {
        "user": env.text("PORTCULLIS_API_RATE", "1200/min"),
        "address": env.text("PORTCULLIS_API_ANONYMOUS_RATE", "60/min"),
        "enrolment": env.text("PORTCULLIS_ENROLMENT_RATE", "20/min"),
    },
    "EXCEPTION_HANDLER": "adminapp.api.problems.handle",
    # One form for each answer: `?format=` is no parameter of anything.
    "URL_FORMAT_OVERRIDE": None,
    "PAGE_SIZE": 50,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "ENUM_NAME_OVERRIDES": {
        "ProtectionEnum": "adminapp.catalog.models.Attribute.Protection",
        "EnrolmentKindEnum": "adminapp.enrolment.models.Kind",
        "EnrolmentStateEnum": "adminapp.enrolment.models.Enrolment.State",
    },
    "TITLE": "Portcullis",
    "DESCRIPTION": "Policy administration for publish/subscribe middleware.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["adminapp.api.permissions.SignedIn"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "SORT_OPERATIONS": False,
    "POSTPROCESSING_HOOKS": [
        "adminapp.api.schema.loosen_nulls",
    ],
    "SCHEMA_PATH_PREFIX": r"/api/v1",
}

# Enrolment: where those who enrol find brokers (a file as `docs/operator-guide.md` shows; empty
# leaves it to them), and how long their certificates hold.
_ENROLMENT_BROKERS = env.text("PORTCULLIS_ENROLMENT_BROKERS", "")
ENROLMENT_BROKERS = Path(_ENROLMENT_BROKERS) if _ENROLMENT_BROKERS else None
CERTIFICATE_SECONDS = env.integer("PORTCULLIS_CERTIFICATE_SECONDS", 14 * 24 * 3600, minimum=60)

# Background work
CELERY_BROKER_URL = env.text("PORTCULLIS_CELERY_BROKER_URL", "filesystem://")
CELERY_BROKER_TRANSPORT_OPTIONS = env.celery_transport(CELERY_BROKER_URL, VAR_DIR / "celery")
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BEAT_SCHEDULE_FILENAME = str(VAR_DIR / "celery" / "beat-schedule")
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TIMEZONE = "UTC"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"redact": {"()": "adminapp.core.logs.Redact"}},
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["redact"],
        }
    },
    "root": {"handlers": ["console"], "level": env.text("PORTCULLIS_LOG_LEVEL", "INFO")},
    "loggers": {
        "django": {"handlers": ["console"], "level": "INFO", "propagate": False},
        "django.request": {"handlers": ["console"], "level": "ERROR", "propagate": False},
    },
}
