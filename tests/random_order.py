"""Random order of tests, and nothing else random: `random` is seeded by the name of the test, not by the run.

pytest-randomly shuffles the files and the tests of each file, and prints the seed: `--randomly-seed=SEED` repeats an
order, `--randomly-dont-reorganize` runs the tests as they are written.
"""

import random
import zlib

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.option.randomly_reset_seed = False


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    random.seed(seed_of(item.name))


def seed_of(name: str) -> int:
    """Return the same seed for the same name, in every run."""
    return zlib.crc32(name.encode())
