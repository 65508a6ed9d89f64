"""The group coordinator: groups of connected clients in memory, over those on disk."""
