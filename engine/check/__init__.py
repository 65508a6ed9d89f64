"""Whether what lies in a log directory is whole and agrees with itself."""
