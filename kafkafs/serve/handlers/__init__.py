"""Answers to the requests, one module for each group of APIs."""
