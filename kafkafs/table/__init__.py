"""Records, batches and segments as rows of Arrow tables, split by split; needs PyArrow."""
