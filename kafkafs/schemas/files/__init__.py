"""Schemas in files: `.avsc`, `.proto`, `.json`, descriptor sets, mappings of topics, and exports of a registry."""
