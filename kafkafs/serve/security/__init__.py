"""Who may read: TLS, the password file, and logins by SASL."""
