#!/bin/sh
# The Python of local workers, which has PySpark installed: imported from the zips that Spark puts before it, which
# hold no bytecode, it would take each process a second more to start.
PYTHONPATH=$(printf %s "${PYTHONPATH:-}" | sed 's#[^:]*/python/lib/[^:/]*\.zip:\{0,1\}##g')
export PYTHONPATH
exec "$KAFKAFS_PYTHON" "$@"
