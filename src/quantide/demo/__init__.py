"""The demo: a market that does not exist, taken in through Spark, served, and shown."""
