"""Check that the files of a log dir are undamaged and consistent."""
