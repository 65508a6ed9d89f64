"""The rules of a check, their findings and their page."""
