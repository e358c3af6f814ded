"""Speed against peers, in one run, as ratios: `python -m benchmarks`. Everything runs on one thread."""
