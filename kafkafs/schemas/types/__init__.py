"""Decoders of keys and values whose type a mapping or the name of their topic tells, and that carry no schema."""
