"""Jobs as functions of a Spark session, which `kafkafs spark` runs on the command line."""

from __future__ import annotations
