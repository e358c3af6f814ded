"""Demo: a generated market, ingested through Spark, served, and shown."""
