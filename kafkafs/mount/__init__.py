"""Mounts: options, the daemon and its session, unmounting."""
