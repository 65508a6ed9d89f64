"""Schemas of keys and values, without a schema registry: where they are kept, and which one a record asks for."""
