"""Decoders: a schema and bytes to JSON, with bounds for hostile schemas and hostile bytes."""
