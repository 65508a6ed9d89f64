"""The sink: Arrow record batches in, a log dir out that a broker loads.

Tasks encode their rows into whole segments with indexes, below the folder of their job; a commit puts those of the
tasks that counted together, loads each log once, and gives the log dir its name in one step.
"""
