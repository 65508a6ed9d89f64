"""Arguments, printing, exit status."""
