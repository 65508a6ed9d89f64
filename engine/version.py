"""The version of the distribution, which holds both packages."""

__version__ = "0.1.0"
