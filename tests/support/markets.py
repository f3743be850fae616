"""The news service of paper 001, where prices are for premium customers alone."""

from __future__ import annotations

from pathlib import Path

SAMPLE = Path(__file__).parents[2] / "adminapp" / "samples" / "stocks.yaml"
QUOTE = {"exchange": "NASDAQ", "sym": "IBM", "price": 12, "volume": 300}
PRICES = """
---
object: policy
domain: stocks
name: prices for premium customers
title: Prices are for premium customers alone
action: subscribe
event_type: Quote
expression: subject.role == "premium"
attributes: [price]
"""


def priced(folder: Path) -> Path:
    """Write the sample with prices for premium customers; returns the file."""
    text = SAMPLE.read_text(encoding="utf-8")
    everything = 'event_type: Quote\nexpression: subject.role == "customer"\n'
    assert text.count(everything) == 1
    text = text.replace(everything, f"{everything}attributes: [exchange, sym, volume]\n")
    path = folder / "stocks.yaml"
    path.write_text(text + PRICES, encoding="utf-8")
    return path
