"""The Delta table of a stream and its side files. Nothing else knows the names of files."""
