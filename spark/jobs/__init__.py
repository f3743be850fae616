"""Entry points: `python -m spark.jobs.<name>`."""
