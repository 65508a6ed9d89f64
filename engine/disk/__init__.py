"""The one way to write files: the disk, and a lock of a folder."""
