"""Object stores as sources: s3://, gs:// and az://."""
