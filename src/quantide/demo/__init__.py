"""The demo: a sketch fed with millions of values a second, its answers shown beside the exact ones."""

from quantide.demo.show import run

__all__ = ["run"]
