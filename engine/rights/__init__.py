"""What the user of a broker may do with the files of its log dirs."""
