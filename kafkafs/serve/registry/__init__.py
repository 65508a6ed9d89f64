"""The part of a schema registry's REST API that reads, from the registry's topic."""
