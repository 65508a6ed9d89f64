"""Completion in a shell: names of the source that is already on the command line, and the script for the shell."""
