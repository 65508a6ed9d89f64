"""Checks of the files beside the batches."""
