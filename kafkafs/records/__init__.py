"""The door from logs to readers: which records there are to see."""
