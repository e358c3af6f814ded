"""Standing queries: very many quantiles of a stream, each with its own precision, kept right for almost nothing."""
