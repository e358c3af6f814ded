"""Delta table of a stream, with its index files and recent files. No other package knows the names of files."""
