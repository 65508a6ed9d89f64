"""The objects of `kafkafs.open`: a source, its topics, partitions, records and scans."""
