"""How things grow, and the bounds that are stated beside what is measured: `python -m characterization`."""
