"""Answers about groups and to their members: those on disk, with the members and commits of this server over them."""
