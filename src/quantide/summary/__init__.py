"""Summary, Summaries and Answer: the values that all packages exchange."""
