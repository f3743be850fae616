"""The story of the sample organisations, played by real processes and checked step by step."""
