"""Kernels that reject negative indexes too.

Bounds checks let -1 pass, which is the last element in Python and in numba, and in a kernel is nearly always a bug. So
where tests run with bounds checks, the sources of kernels are loaded with every computed index wrapped in a check.
Literal indexes, such as `offsets[-1]`, are intended.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numba
from numba.core import types
from numba.extending import overload

PACKAGE = "quantide.kernels."
HELPERS = ("block_sort", "jit", "warm_up", "__main__")  # modules there without kernels
NAME = "_not_negative"


def not_negative(index: Any) -> Any:
    """Return the index; raise IndexError if it is a number below 0."""
    if index < 0:
        raise IndexError("index is negative")
    return index


def none_negative(index: Any) -> Any:
    """Do the same for an array of indexes."""
    for one in index:
        if one < 0:
            raise IndexError("an index is negative")
    return index


def anything(index: Any) -> Any:
    return index


@overload(not_negative)
def _not_negative(index: Any) -> Any:
    kind, several = (index.dtype, True) if isinstance(index, types.Array) else (index, False)
    if isinstance(kind, types.Integer) and getattr(kind, "signed", True):
        return none_negative if several else not_negative
    return anything


class _Wrap(ast.NodeTransformer):
    """Wraps computed indexes in the brackets of `array[...]`; ignores annotations."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        node.slice = self._wrapped(node.slice)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return node

    def _wrapped(self, index: Any) -> Any:
        if isinstance(index, ast.Tuple):
            index.elts = [self._wrapped(one) for one in index.elts]
        elif isinstance(index, ast.Slice):
            index.lower, index.upper = self._wrapped(index.lower), self._wrapped(index.upper)
        elif index is not None and not _is_number(index):
            return ast.Call(func=ast.Name(id=NAME, ctx=ast.Load()), args=[index], keywords=[])
        return index


def _is_number(node: ast.AST) -> bool:
    operand = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(operand, ast.Constant)


def wrapped(source: str) -> ast.Module:
    """Return a module whose functions check their indexes; the rest is unchanged."""
    tree = ast.parse(source)
    tree.body = [_Wrap().visit(node) if isinstance(node, ast.FunctionDef) else node for node in tree.body]
    return ast.fix_missing_locations(tree)


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return compile(wrapped(self.get_data(path).decode()), path, "exec")

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[NAME] = not_negative
        super().exec_module(module)


class Finder:
    """Finds the modules of kernels, and loads them with checks."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        found = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        kernels = fullname.startswith(PACKAGE) and fullname.removeprefix(PACKAGE) not in HELPERS
        if found is None or found.origin is None or not kernels:
            return None
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=_Loader(fullname, found.origin))


def install() -> None:
    """Load kernels with checks from now on; call it before any of them is imported, in a process with bounds checks."""
    loaded = [name for name in sys.modules if name.startswith(PACKAGE)]
    assert getattr(numba.config, "BOUNDSCHECK", None), "set NUMBA_BOUNDSCHECK=1"
    assert not loaded, f"too late for {loaded}"
    sys.meta_path.insert(0, Finder)


def pytest_load_initial_conftests() -> None:
    """Install the checks as a plugin of pytest (-p), before any test is collected."""
    install()
