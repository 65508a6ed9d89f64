"""Log dirs without chosen records, and the proof that they are gone."""
