"""Benchmarks: each prints a table with a ratio against a baseline of the same run."""
