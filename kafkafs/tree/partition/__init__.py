"""The folders and files of one partition."""
