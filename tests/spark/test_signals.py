"""Ctrl-C while Spark starts is deferred, because an interrupted start leaves a Java process behind."""

import signal
from collections.abc import Iterator

import pytest

from quantide.spark.spark_session import defer_signals


@pytest.fixture
def received() -> Iterator[list[int]]:
    """Signals that reach a handler of our own."""
    numbers: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: numbers.append(number))
    yield numbers
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
        with defer_signals():
            signal.raise_signal(signal.SIGINT)
            done.append("up")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert done == ["up"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_existing_handler_stays(received: list[int]) -> None:
    ours = signal.getsignal(signal.SIGINT)
    with defer_signals():
        signal.raise_signal(signal.SIGINT)
        assert not received
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as Spark does, with a handler of its own
    assert received == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is ours


@pytest.mark.usefixtures("usual")
def test_without_a_handler_that_of_spark_stays() -> None:
    with defer_signals():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
