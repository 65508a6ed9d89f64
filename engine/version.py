"""Version of the distribution, which has both packages."""

__version__ = "0.1.0"
