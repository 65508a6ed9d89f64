"""Programs that fill Arrow columns from the bytes of keys and values."""
