"""Predict what a broker would do to log dirs if it started now; nothing is changed."""
