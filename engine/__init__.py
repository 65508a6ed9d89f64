"""Kafka's log storage layer: files, records, indexes, state and logs, read without a broker."""

from engine.version import __version__

# `engine` is a common name: kafkafs checks this mark to be sure that it found its own.
__distribution__ = "kafkafs"

__all__ = ["__distribution__", "__version__"]
