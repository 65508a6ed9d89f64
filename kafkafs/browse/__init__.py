"""`kafkafs browse`: topics, partitions and records of a source on a terminal.

`screens` hold what is shown and what keys do, as values: they draw themselves as lines of text, without a terminal.
`terminal` alone knows one.
"""
