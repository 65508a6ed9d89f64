"""What is often done with a volume of logs, as functions of a Spark session.

Each takes `(spark, path, …)` with options by keyword and gives a summary (`summary.Summary`): facts, tables,
and how many findings there were. `tell`, where it can be given, hears of progress. `kafkafs spark` is the same on
the command line. Nothing here imports PySpark before it is asked for.
"""

from __future__ import annotations
