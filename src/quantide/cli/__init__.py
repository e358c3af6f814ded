"""The commands of Quantide."""

from quantide.cli.commands import main

__all__ = ["main"]
