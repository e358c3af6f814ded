"""The release: what is in the sdist and the wheel that is built from it, and that both work where nothing else is."""

import re
import subprocess
import tarfile
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

import quantide
from tests.release.bare_environment import ROOT, build, install, need_index

EXTRAS = ["history", "spark", "server", "client", "histograms", "plot"]
LACKING = {
    "quantile store 0.5": "history",
    "history data/latency": "history",
    "history verify store": "history",
    "history build lake store": "history,spark",
    "ingest streams.toml": "history,spark",
    "quarantine list streams.toml": "history,spark",
    "serve streams.toml": "server",
    "token list streams.toml": "server",
    "run streams.toml": "server,spark",
    "demo": "server,spark",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    need_index()
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def sdist(built: tuple[Path, Path]) -> set[str]:
    with tarfile.open(built[0]) as file:
        return {name.partition("/")[2] for name in file.getnames()}


@pytest.fixture(scope="module")
def metadata(built: tuple[Path, Path]) -> Message:
    name = f"quantide-{quantide.__version__}.dist-info/METADATA"
    with zipfile.ZipFile(built[1]) as file:
        return message_from_string(file.read(name).decode())


def project(*which: str) -> set[str]:
    """The files that git knows of; `--others`: that it would know of if they were added."""
    if not (ROOT / ".git").exists():
        pytest.skip("only git knows which files are the project's")
    command = ["git", "ls-files", "-z", "--cached", "--exclude-standard", *which]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return {name for name in listed if (ROOT / name).is_file() and not name.startswith(".ci/")}


def test_the_sdist_has_every_file_of_the_project_and_no_other(sdist: set[str]) -> None:
    assert project() - sdist == set()
    assert sdist - project("--others") == {"PKG-INFO"}


def test_the_wheel_has_every_file_of_the_package_and_no_other(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as file:
        found = set(file.namelist())
    about = f"quantide-{quantide.__version__}.dist-info"
    package = {name.removeprefix("src/") for name in project("--others") if name.startswith("src/")}
    assert package <= found
    assert {"quantide/py.typed", "quantide/server/static/index.html", f"{about}/licenses/LICENSE"} <= found
    assert {name for name in found - package if not name.startswith(about)} == set()


def test_the_metadata(metadata: Message) -> None:
    assert metadata["Version"] == quantide.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert {*EXTRAS, "iceberg", "demo", "all", "dev", "bench"} == {*metadata.get_all("Provides-Extra", [])}
    alone = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {re.split("[<>=]", line)[0] for line in alone} == {"numpy", "numba", "pyarrow"}


def test_what_a_package_index_shows_leads_nowhere_that_is_not_there(metadata: Message) -> None:
    text = metadata.get_payload()
    assert isinstance(text, str)
    assert "## What it guarantees" in text
    assert "pip install 'quantide[all]'" in text
    assert "`pip install quantide` gives the core" in text
    prose = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    assert re.findall(r"\]\((?!https?:)[^)]*\)", prose) == []
    assert [word for word in ("make demo", "make docs", "checkout", "this page") if word in prose] == []


@pytest.mark.slow
def test_the_same_source_gives_the_same_bytes(built: tuple[Path, Path], tmp_path: Path) -> None:
    assert [file.read_bytes() for file in build(tmp_path)] == [file.read_bytes() for file in built]


@pytest.mark.slow
def test_the_core_alone(built: tuple[Path, Path], tmp_path: Path) -> None:
    bare = install(tmp_path, built[1])
    bare.use("core", "without")
    assert bare.run("quantide", "--version").stdout == f"quantide {quantide.__version__}\n"
    assert "maintain:" in bare.run("quantide", "--help").stdout
    doctor = bare.run("quantide", "doctor")
    assert doctor.returncode == 0, doctor.stdout
    for extra in EXTRAS:
        assert f'pip install "quantide[{extra}]"' in doctor.stdout
    for words, extras in LACKING.items():
        done = bare.run("quantide", *words.split())
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert f'pip install "quantide[{extras}]"' in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_each_extra_is_enough_for_what_it_is_for(extra: str, built: tuple[Path, Path], tmp_path: Path) -> None:
    install(tmp_path, built[1], extra).use("core", extra)


@pytest.mark.slow
def test_all_extras_together(built: tuple[Path, Path], tmp_path: Path) -> None:
    bare = install(tmp_path, built[1], "all")
    bare.use("core", *EXTRAS)
    doctor = bare.run("quantide", "doctor")
    assert doctor.returncode == 0, doctor.stdout
    assert "pip install" not in doctor.stdout
