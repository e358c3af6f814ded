"""Settings of all tests: hypothesis never depends on chance, and every test has its own fixed seed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.random_order import seed_of as seed_of

pytest.register_assert_rewrite("tests.checks")

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "default", derandomize=True, deadline=None, max_examples=100, suppress_health_check=_QUIET, database=None
)
settings.register_profile(
    "slow", derandomize=True, deadline=None, max_examples=3000, suppress_health_check=_QUIET, database=None
)
settings.load_profile(os.environ.get("QUANTIDE_HYPOTHESIS", "default"))


@pytest.fixture(scope="session", autouse=True)
def local_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Folders of this machine for stores in object storage, instead of those of the user."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("QUANTIDE_CACHE", "QUANTIDE_STATE"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        yield


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded with the name of the test."""
    return np.random.default_rng(seed_of(request.node.name))
