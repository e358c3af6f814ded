"""The processor of a measurement: AMD names many generations alike, so the generation is added."""

import pytest

from bench.environment import describe, processor

INTEL = "Intel(R) Xeon(R) Processor"


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "name"),
    [
        ("AuthenticAMD", "26", "avx2 avx512f", "AMD EPYC (Zen 5)"),
        ("AuthenticAMD", "25", "avx2 avx512f", "AMD EPYC (Zen 4)"),
        ("AuthenticAMD", "25", "avx2", "AMD EPYC (Zen 3)"),
        ("AuthenticAMD", "99", "avx2", "AMD EPYC (family 99)"),
    ],
)
def test_generations_of_amd(vendor: str, family: str, flags: str, name: str) -> None:
    assert processor({"model name": "AMD EPYC", "vendor_id": vendor, "cpu family": family, "flags": flags}) == name


def test_other_processors() -> None:
    assert processor({"model name": INTEL, "vendor_id": "GenuineIntel", "cpu family": "6"}) == INTEL
    assert processor({})  # of an ARM processor Linux has no name
    assert describe()["cpu"]
