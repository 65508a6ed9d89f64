"""The assignors of consumer groups. They give each member what a broker gives it, to the partition."""
