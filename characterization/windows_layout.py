"""Windows with less kept as it is: so their summaries can be looked at in windows of the papers' sizes."""

from collections.abc import Iterator
from contextlib import contextmanager

from quantide.windows import constrained, recent, sliding
from quantide.windows.layout import Layout, layout_for

BUILT, SHRUNK = "as built", "shrunk"
CHUNK, LEAST = 1_024, 64


@contextmanager
def layout(name: str) -> Iterator[None]:
    """Shrunk: no window keeps its values because it is small, and few of the newest are kept as they are."""
    if name == BUILT:
        yield
        return
    changes = [(sliding, "EXACT", 0), (recent, "layout_for", _small), (constrained, "layout_for", _small)]
    before = [(module, what, getattr(module, what)) for module, what, _ in changes]
    try:
        for module, what, value in changes:
            setattr(module, what, value)
        yield
    finally:
        for module, what, value in before:
            setattr(module, what, value)


def _small(eps: float, most: int | None = None) -> Layout:
    return layout_for(eps, None, CHUNK, LEAST)
