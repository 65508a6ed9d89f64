"""The cluster's metadata: read from all copies and folders, written as a snapshot that new controllers start from."""
