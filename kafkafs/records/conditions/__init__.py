"""Conditions on records: keys, regular expressions, jq's language; on columns, bytes or lines."""
