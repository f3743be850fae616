"""What a session is told: on this machine, and on any cluster by configuration alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark.errors import PipelineError
from spark.session import SessionOptions, read_settings, settings

CLUSTERS = ["spark://host:7077", "yarn", "k8s://https://host:6443"]


@pytest.mark.parametrize("master", CLUSTERS)
def test_on_a_cluster_no_folder_or_address_of_this_machine_is_taken_for_the_executors(
    master: str, tmp_path: Path
) -> None:
    found = settings(SessionOptions(master, local_dir=tmp_path))
    assert "spark.local.dir" not in found
    assert not {name for name in found if name.startswith("spark.driver.") and "ost" in name}
    assert "spark.authenticate" not in found
    mine = settings(SessionOptions("local[2]", local_dir=tmp_path))
    assert mine["spark.local.dir"] == str(tmp_path)
    assert mine["spark.driver.host"] == "127.0.0.1"


@pytest.mark.parametrize("master", CLUSTERS)
def test_what_the_operator_says_wins(master: str, tmp_path: Path) -> None:
    path = tmp_path / "spark.conf"
    path.write_text(
        "# on every node\n\n"
        "spark.executorEnv.PYTHONPATH   /opt/portcullis\n"
        "spark.kubernetes.container.image = registry.example/portcullis:1\n"
        "spark.executor.memory=2g\n"
        "spark.executor.extraJavaOptions -Xss2m -Da=b\n"
    )
    found = settings(SessionOptions(master, more=read_settings(path)))
    assert found["spark.executorEnv.PYTHONPATH"] == "/opt/portcullis"
    assert found["spark.kubernetes.container.image"] == "registry.example/portcullis:1"
    assert found["spark.executor.memory"] == "2g"
    assert found["spark.executor.extraJavaOptions"] == "-Xss2m -Da=b"
    assert found["spark.driver.memory"] == "512m"


def test_only_the_path_of_a_password_is_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "with blank" / "password"
    found = settings(SessionOptions("yarn", password_file=path, jars=(Path("/a.jar"),)))
    assert f'"-Dorg.postgresql.pgpassfile={path}"' in found["spark.executor.extraJavaOptions"]
    assert found["spark.jars"] == "/a.jar"


@pytest.mark.parametrize("text", ["spark.executor.memory", "executor.memory 2g", "spark.a\n"])
def test_a_line_that_is_no_setting_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "spark.conf"
    path.write_text(f"spark.executor.memory 2g\n{text}\n")
    with pytest.raises(PipelineError, match="line 2 of"):
        read_settings(path)


def test_a_missing_file_of_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="cannot be read"):
        read_settings(tmp_path / "spark.conf")


def test_a_secret_among_settings_must_be_the_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "spark.conf"
    path.write_text("spark.authenticate.secret s3cret\n")
    path.chmod(0o644)
    with pytest.raises(PipelineError, match="mode 0600"):
        read_settings(path)
    path.chmod(0o600)
    assert read_settings(path) == {"spark.authenticate.secret": "s3cret"}
