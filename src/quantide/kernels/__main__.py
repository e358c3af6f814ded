"""Compile kernels and cache the machine code on disk: `python -m quantide.kernels [TYPE ...]`.

Without a type, kernels are compiled for every carrier type. Each processor compiles other kernels.
"""

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from quantide.kernels.warm_up import CARRIERS, compile_group, groups


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m quantide.kernels", description="Compile kernels and cache them.")
    parser.add_argument("types", nargs="*", metavar="TYPE", help=f"{', '.join(CARRIERS)}; all if none is given")
    types = parser.parse_args().types
    if unknown := [name for name in types if name not in CARRIERS]:
        parser.error(f"there is no carrier type {unknown[0]}; give {', '.join(CARRIERS)}, or none for all of them")
    started = time.perf_counter()
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as processes:
        for group in as_completed([processes.submit(compile_group, name) for name in groups(types or CARRIERS)]):
            print(f"  compiled {group.result()}", flush=True)
    print(f"Kernels ready ({time.perf_counter() - started:.1f} s).")


if __name__ == "__main__":
    main()
