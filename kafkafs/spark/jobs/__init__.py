"""Jobs over a volume of logs, as functions of a Spark session.

Each job takes `(spark, path, …)` with keyword options and returns a summary (`summary.JobSummary`): facts, tables, and
the number of findings. `on_progress` takes reports on the way. `kafkafs spark` runs the same jobs on the command
line. PySpark is imported on first use.
"""

from __future__ import annotations
