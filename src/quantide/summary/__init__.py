"""Summary, Summaries and Answer: made by everything, exchanged between everything, asked everything."""
