"""Views of Kafka log directories: a mount, a command line."""

import engine

if getattr(engine, "__distribution__", None) != "kafkafs":
    msg = (
        f"the package 'engine' found at {getattr(engine, '__file__', '?')} is not kafkafs's own; "
        "run the `kafkafs` command, or `python -P -m kafkafs`, from another folder"
    )
    raise ImportError(msg)

from engine.version import __version__

__all__ = ["__version__"]
