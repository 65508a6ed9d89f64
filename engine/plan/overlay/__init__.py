"""A disk that keeps all changes in this process."""
