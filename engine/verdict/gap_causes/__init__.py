"""Offsets that no batch has: what explains them."""
