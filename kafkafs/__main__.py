"""`python -m kafkafs` is the `kafkafs` command."""

from kafkafs.cli import main

if __name__ == "__main__":
    main()
