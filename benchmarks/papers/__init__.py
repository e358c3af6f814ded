"""What five papers report beside what is measured here: docs/results/papers.md."""
