"""Validation of batches before they are appended."""
