"""Transforms: from one DataFrame to another, without input and output of their own."""
