"""Export of records to files by topic and day, with a ledger beside them."""
