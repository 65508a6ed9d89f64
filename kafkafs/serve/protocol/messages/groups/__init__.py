"""The messages of groups: classic, consumer, streams and share groups."""
