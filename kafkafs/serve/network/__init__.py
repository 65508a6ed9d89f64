"""Bytes to and from clients: requests, answers, limits on memory."""
