"""Windows: quantiles of the most recent data, by number, by time, by any condition."""
