"""The folder that a rebuild writes: its stages, its manifest, its records files, their verification."""
