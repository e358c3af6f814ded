"""Environments with nothing of this one in them: what is built, and where it is installed and used."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USE = Path(__file__).with_name("user_steps.py")
# How this user reaches a package index; what else PIP_... may say (a target, a user's folder) is left out.
REACHING = re.compile(r"PIP_(\w*INDEX_URL|FIND_LINKS|CERT|CLIENT_CERT|TRUSTED_HOST|PROXY|CONFIG_FILE|DEFAULT_TIMEOUT)")
SECONDS = 1200  # for whatever hangs


def outside() -> dict[str, str]:
    """The variables of this process, without those that would bring this environment along."""
    ours = ("PYTHON", "PIP_", "NUMBA", "PYSPARK", "SPARK", "VIRTUAL_ENV", "QUANTIDE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if not in_here(folder)]
    return {**kept, "PATH": os.pathsep.join(folders)}


def in_here(folder: str) -> bool:
    return Path(folder).resolve().is_relative_to(Path(sys.prefix).resolve())


def reaching() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if REACHING.fullmatch(name)}
    return {**outside(), **kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def pip(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", *words]
    return subprocess.run(command, check=False, env=reaching(), capture_output=True, text=True, timeout=SECONDS)


@cache
def no_index() -> str:
    """Return the reason why pip cannot download packages, or "" if it can."""
    small = ["install", "--dry-run", "--ignore-installed", "--no-deps", "--retries", "1", "hatchling"]
    tried = pip(*small)
    return "" if tried.returncode == 0 else tried.stderr.strip().rpartition("\n")[2] or "pip failed"


def need_index() -> None:
    if no_index():
        pytest.skip(f"no package index can be reached: {no_index()}")


def build(out: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from it, in environments of their own."""
    command = [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)]
    env = {**reaching(), "SOURCE_DATE_EPOCH": "1700000000"}
    done = subprocess.run(command, check=False, cwd=out, env=env, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    [sdist], [wheel] = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


@dataclass(frozen=True)
class Bare:
    """A virtual environment, and an empty folder to work in."""

    folder: Path

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command, as by a user who has activated the environment."""
        env = outside()
        path = os.pathsep.join([str(self.folder / "env" / "bin"), env["PATH"]])
        env |= {"PATH": path, "VIRTUAL_ENV": str(self.folder / "env"), "HOME": str(self.work)}
        program = shutil.which(command[0], path=path)
        assert program is not None, command[0]
        return subprocess.run(
            [program, *command[1:]],
            check=False,
            cwd=self.work,
            env=env,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def use(self, *extras: str) -> None:
        shutil.copy(USE, self.work)
        done = self.run("python", USE.name, *extras)
        assert done.returncode == 0, done.stderr


def install(folder: Path, wheel: Path, extra: str = "") -> Bare:
    """Quantide, with an extra, alone in a new environment."""
    bare = Bare(folder)
    bare.work.mkdir(parents=True)
    place = folder / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, env=outside())
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    done = pip("--python", str(place / "bin" / "python"), "install", "--no-compile", wanted)
    assert done.returncode == 0, done.stderr
    return bare
