"""Windows: quantiles of recent data by number of values, time, or filter."""
