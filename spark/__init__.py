"""The data pipeline: computes encodings anew for whole key epochs with Spark.

It reads snapshots and writes result folders, both Parquet; it never sees the
control plane's database. `spark.snapshots` is for the control plane's side of a
run and needs no Spark, `spark.jobs` holds the entry points.
"""
