"""Tests of the privacy package of the engine."""
