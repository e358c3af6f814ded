"""The project itself: the cost of imports, the layers, the Makefile, the metadata."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

import quantide

ROOT = Path(__file__).parent.parent
CI = ROOT / ".ci"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, TOOLS = PYPROJECT["project"], PYPROJECT["tool"]
TARGETS = re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE)
EXTRA_PACKAGES = ["pyspark", "deltalake", "fastapi", "uvicorn", "pandas", "polars", "matplotlib"]


def run_command(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def list_loaded_modules(statement: str) -> list[str]:
    return run_command(sys.executable, "-c", f"{statement}; import sys; print(*sys.modules)").split()


def test_the_core_imports_no_package_of_an_extra() -> None:
    loaded = list_loaded_modules(f"from quantide import {', '.join({*quantide.__all__} - {'History'})}")
    assert "numpy" in loaded
    assert [name for name in EXTRA_PACKAGES if name in loaded] == []


def test_the_command_line_starts_without_heavy_imports() -> None:
    """The command line handles Ctrl-C in its first second."""
    loaded = list_loaded_modules("import quantide.cli")
    assert [name for name in ("numpy", "numba", "pyarrow") if name in loaded] == []


def test_the_picture_shows_the_layers_of_the_import_contract() -> None:
    [contract] = TOOLS["importlinter"]["contracts"]
    layers = [{*re.findall(r"\w+", layer)} for layer in contract["layers"]]
    rows: dict[float, set[str]] = {}
    for text in ElementTree.parse(ROOT / "docs" / "images" / "architecture.svg").iter(
        "{http://www.w3.org/2000/svg}text"
    ):
        if text.get("class") == "package":
            rows.setdefault(float(text.attrib["y"]), set()).add(text.text or "")
    assert [rows[height] for height in sorted(rows)] == layers


def test_every_public_name_is_listed_and_importable() -> None:
    assert {*quantide.__all__} <= {*dir(quantide)}
    assert [name for name in quantide.__all__ if getattr(quantide, name).__name__.rpartition(".")[2] != name] == []


def test_every_public_kernel_has_one_row_about_its_indexes() -> None:
    """A row begins with names of kernels; a name without a module is of the module before it."""
    page = (ROOT / "docs" / "guarantees" / "memory-safety.md").read_text(encoding="utf-8")
    rows, module = list[str](), ""
    for cell in re.findall(r"^\| (`.*?) \|", page, flags=re.MULTILINE):
        for kernel in re.findall(r"`([\w.]+)`", cell):
            module = kernel.rpartition(".")[0] or module
            rows.append(f"{module}.{kernel.rpartition('.')[2]}")
    assert sorted(rows) == sorted(list_public_kernels())


def list_public_kernels() -> list[str]:
    found = list[str]()
    for path in sorted((ROOT / "src" / "quantide" / "kernels").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                decorators = {ast.unparse(one) for one in node.decorator_list}
                found += [f"{path.stem}.{node.name}"] if decorators & {"compiled", "pure"} else []
    return found


def test_the_core_needs_three_packages_only() -> None:
    names = {re.split(r"[<>=~]", line)[0] for line in PROJECT["dependencies"]}
    assert names == {"numpy", "numba", "pyarrow"}


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_every_dependency_has_a_lower_and_an_upper_bound(extra: str) -> None:
    lines = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"][extra]]
    unbound = [line for line in lines if not line.startswith("quantide[") and not re.search(r">=.+,<", line)]
    assert unbound == []


def test_the_makefile_has_the_documented_targets() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    documented = re.findall(r"^    make ([a-z-]+)", page, flags=re.MULTILINE)
    assert sorted([*documented, "help"]) == sorted(TARGETS)  # `make help` is in the text below the list


@pytest.mark.parametrize("target", TARGETS)
def test_make_help_explains_every_target(target: str) -> None:
    assert re.search(rf"^  make {target} +\w", run_command("make", "--no-print-directory", "help"), re.MULTILINE)


def test_make_alone_shows_the_help() -> None:
    make = ["make", "--no-print-directory"]
    assert run_command(*make) == run_command(*make, "help")


@pytest.mark.skipif(not CI.exists(), reason="not part of a source distribution")
def test_continuous_integration_runs_make_test() -> None:
    script = CI / "run"
    assert script.stat().st_mode & 0o111
    assert "make test" in script.read_text(encoding="utf-8")


@pytest.mark.parametrize("script", ["scripts/setup.sh", "scripts/env.sh", *(str(path) for path in CI.glob("run"))])
def test_scripts_are_valid_bash(script: str) -> None:
    run_command("bash", "-n", script)


def test_types_are_published() -> None:
    assert (Path(quantide.__file__).parent / "py.typed").exists()


def test_the_version_is_defined_once() -> None:
    assert PROJECT["dynamic"] == ["version", "readme"]
    assert f"## {quantide.__version__}, 20" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
