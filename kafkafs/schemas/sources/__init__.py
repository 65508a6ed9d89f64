"""Where the schemas of a source come from: its registry's topic, files, what the user says."""
