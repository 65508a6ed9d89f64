"""What readers get of records: rows of Arrow tables, text by a format."""
