"""The sink: makes a log dir, which a broker loads, from Arrow record batches.

Tasks encode their rows into whole segments with indexes, below the folder of their job. The commit assembles the
segments of the successful tasks, loads each log once, and renames the log dir to its target in one step.
"""
