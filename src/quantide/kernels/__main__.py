"""Compile every kernel for every carrier type and cache the machine code on disk: `python -m quantide.kernels`."""

import time

from quantide.kernels.warm_up import warm

if __name__ == "__main__":
    started = time.perf_counter()
    for name in warm():
        print(f"  compiled {name}", flush=True)
    print(f"Kernels ready ({time.perf_counter() - started:.1f} s).")
