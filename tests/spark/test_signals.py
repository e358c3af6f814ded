"""Ctrl-C while Spark starts: it waits, because a start that is interrupted leaves a Java behind."""

import signal
from collections.abc import Iterator

import pytest

from quantide.spark.session import signals_wait


@pytest.fixture
def came() -> Iterator[list[int]]:
    """Signals that reach a handler of our own."""
    found: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: found.append(number))
    yield found
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def usual() -> Iterator[None]:
    """The handler that Python begins with, whatever a Spark of other tests has left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("usual")
def test_ctrl_c_comes_when_spark_is_up() -> None:
    done = []

    def start() -> None:
        with signals_wait():
            signal.raise_signal(signal.SIGINT)
            done.append("up")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert done == ["up"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_had_a_handler_keeps_it(came: list[int]) -> None:
    ours = signal.getsignal(signal.SIGINT)
    with signals_wait():
        signal.raise_signal(signal.SIGINT)
        assert not came
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as Spark does, with a handler of its own
    assert came == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is ours


@pytest.mark.usefixtures("usual")
def test_without_a_handler_that_of_spark_stays() -> None:
    with signals_wait():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
