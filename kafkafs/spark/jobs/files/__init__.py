"""The files of a job: where they lie, what is in them, which of them are written."""
