"""What uses the disk, and what a broker takes from it next."""
