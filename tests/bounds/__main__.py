"""Run tests with bounds checks in every kernel: `python -m tests.bounds ARGUMENTS_OF_PYTEST`."""

import os
import subprocess
import sys

from tests.bounds.checked_process import ROOT, command, environment

WARM = (
    "from tests.bounds.negative_indexes import install; install(); from quantide.kernels.warm_up import warm; [*warm()]"
)

if __name__ == "__main__":
    os.chdir(ROOT)
    variables = environment()
    print("Compiling the kernels with checks, a minute the first time", flush=True)
    subprocess.run([sys.executable, "-c", WARM], env=variables, check=True)  # no test has to wait for it
    os.execve(sys.executable, command(*sys.argv[1:]), variables)
