"""Answers to the requests of admin tools: what a cluster has and who may do what."""
