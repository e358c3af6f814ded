"""Version of an answer: files that vanish beside a reader, readers at other versions, threads."""

import gc
import traceback
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from threading import enumerate as threads
from typing import Any

import numpy as np
import pytest

from quantide import History
from quantide.errors import CorruptBytesError, StorageError
from quantide.live import LiveAnswer, LiveStream
from quantide.store.stream_table import StreamTable
from tests.live.live_model import Grown, Rng, check, check_question, small
from tests.oracle import bound_faults

QUESTIONS: list[dict[str, Any]] = [
    {},
    {"key": ("a",)},
    {"last_steps": 99},
    {"last": 7},
    {"last": 7, "key": ("b",)},
    {"filter": "f"},
]


def grow(grown: Grown, rng: Rng, number: int, rows: int = 40) -> None:
    keys = [("a",) if x else ("b",) for x in rng.random(rows) < 0.5]
    grown.append(rng.integers(-900, 900, rows), np.arange(rows) + number * rows, keys, f=rng.random(rows) < 0.5)


def keyed(path: Path) -> Grown:
    return Grown(path / "store", keys=["host"], filters=["f"])


def forget_files(live: LiveStream) -> None:
    """Empty the cache of blocks, as after queries of many other files."""
    live._reader._span_views.blocks.clear()


@pytest.mark.parametrize("mode", ["quick", "accurate", "exact"])
def test_everything_is_vacuumed_away(mode: str, tmp_path: Path, rng: Rng) -> None:
    """Runs, recent files and their manifest were vacuumed; a reader of an older version continues with the newest."""
    with small():
        grown = keyed(tmp_path)
        for number in range(4):
            grow(grown, rng, number)
            grown.end_step()
        live = LiveStream(grown.path, follow=False)
        counts = {live.answer(0.5, mode=mode).n, live.answer(0.5, mode=mode, key="a").n}
        assert len(counts) == 2
        for number in range(4, 8):
            grow(grown, rng, number)
            grown.end_step()
        grown.settle()
        grown.history.vacuum(0)
        forget_files(live)
        for phi in (0.1, 0.5, 0.9):
            assert live.answer(phi, mode=mode).n in (160, grown.model.n)
            assert live.answer(phi, mode=mode, last=200).n in (160, 200)
            assert live.answer(phi, mode=mode, key="a").n <= grown.model.n
            live.rank(0.0, mode=mode)
        assert live.poll() or live.version == grown.history.version
        check(live, grown.model, rng)
        grown.history.close()


def test_answers_have_the_version_they_are_about(tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit is seen between building the view and reading its version."""
    grown = keyed(tmp_path)
    grow(grown, rng, 0)
    live = LiveStream(grown.path, follow=False)
    span_view = live._reader.span_view
    first = grown.history.version

    def then_polled(*arguments: Any, **named: Any) -> Any:
        found = span_view(*arguments, **named)
        if grown.model.n == 40:
            grow(grown, rng, 1)
            live.poll()
        return found

    monkeypatch.setattr(live._reader, "span_view", then_polled)
    answer = live.answer(0.5)
    assert (answer.version, answer.n) in [(first, 40), (grown.history.version, 80)]
    grown.history.close()


def test_a_version_between(tmp_path: Path, rng: Rng) -> None:
    """Before poll() a reader stays at its version, whatever is committed; then it equals a new one."""
    with small():
        grown = keyed(tmp_path)
        for number in range(3):
            grow(grown, rng, number)
        live = LiveStream(grown.path, follow=False)
        before, answers = live.version, [live.answer(0.5, **unwrap_key(q)) for q in QUESTIONS]
        grow(grown, rng, 3)
        grown.end_step()
        assert live.version == before
        assert [live.answer(0.5, **unwrap_key(q)) for q in QUESTIONS] == answers
        assert live.poll()
        assert not live.poll()
        new = LiveStream(grown.path, follow=False)
        for mode in ("quick", "accurate", "exact"):
            for q in QUESTIONS:
                mine, other = (one.answers([0.01, 0.5, 0.99], mode=mode, **unwrap_key(q)) for one in (live, new))
                assert without_reads(mine) == without_reads(other)
        grown.history.close()


def test_readers_of_every_age_agree(tmp_path: Path, rng: Rng) -> None:
    """Readers that followed every commit, missed some or started late give the same, to the last bit."""
    with small():
        grown = keyed(tmp_path)
        readers: list[LiveStream] = []
        for number in range(12):
            grow(grown, rng, number, int(rng.choice([3, 30, 90])))
            if number % 3 == 2:
                grown.end_step()
                grown.history.vacuum(0)
            readers += (
                [LiveStream(grown.path, follow=False, memory=10 ** int(rng.integers(3, 8)))] if number % 4 == 0 else []
            )
            for reader in readers[::2]:
                reader.poll()
                reader.answer(0.5, last=10)
        grown.settle()
        for reader in (*readers, LiveStream(grown.path, follow=False)):
            reader.poll()
        readers.append(LiveStream(grown.path, follow=False))
        for q in [*QUESTIONS, {"last": 300}, {"within": 9.25}, {"within": 20.0, "filter": "f", "key": ("b",)}]:
            for mode in ("quick", "accurate", "exact"):
                answers = [
                    without_reads(reader.answers([0.001, 0.3, 1], mode=mode, **unwrap_key(q))) for reader in readers
                ]
                assert all(one == answers[0] for one in answers), q
        grown.history.close()


def unwrap_key(scope: dict[str, Any]) -> dict[str, Any]:
    return scope | {"key": scope["key"][0]} if "key" in scope else scope


def without_reads(answers: list[LiveAnswer]) -> list[LiveAnswer]:
    """Answers but for how many blocks were read."""
    return [replace(answer, blocks_read=0) for answer in answers]


def wait_for(true: Callable[[], bool]) -> None:
    for _ in range(500):
        if true():
            return
        Event().wait(0.02)
    raise AssertionError("it never happened")


def test_following(tmp_path: Path, rng: Rng) -> None:
    with small():
        grown = keyed(tmp_path)
        grow(grown, rng, 0)
        with LiveStream(grown.path) as live:
            for number in range(1, 6):
                grow(grown, rng, number)
                grown.settle()
                newest = grown.history.version
                wait_for(lambda newest=newest: live.version == newest)  # type: ignore[misc]
                for question in QUESTIONS:
                    check_question(live, grown.model, rng, question)
        grown.history.close()


def following() -> list[str]:
    return [thread.name for thread in threads() if thread.name.startswith("quantide-live")]


def test_a_closed_stream_does_not_follow(tmp_path: Path, rng: Rng) -> None:
    grown = keyed(tmp_path)
    grow(grown, rng, 0)
    live = LiveStream(grown.path)
    assert following()
    live.close()
    live.close()
    wait_for(lambda: not following())
    grow(grown, rng, 1)
    assert live.answer(0.5, last=7).n == 7
    grown.history.close()


def test_a_stream_that_is_dropped(tmp_path: Path, rng: Rng) -> None:
    """A stream that is dropped without close() ends its thread, and is collected."""
    grown = keyed(tmp_path)
    grow(grown, rng, 0)
    live = LiveStream(grown.path)
    live.monitor(last=5).register(0.5, 0.1)
    live.answer(0.5, filter="f")
    reference = weakref.ref(live)
    del live
    gc.collect()
    wait_for(lambda: reference() is None and not following())
    grown.history.close()


def test_errors_while_following(tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next query raises the error of the thread that follows; later queries are answered again."""
    grown = keyed(tmp_path)
    grow(grown, rng, 0)
    with LiveStream(grown.path) as live:

        def fails(_: object) -> bool:
            raise StorageError("the disk is away")

        with monkeypatch.context() as patch:
            patch.setattr(live._reader, "refresh", fails)
            wait_for(lambda: live.last_error is not None)
            with pytest.raises(StorageError, match="away"):
                live.answer(0.5, last=3)
        wait_for(lambda: live.last_error is None)
        check_question(live, grown.model, rng, {"last": 3})
    grown.history.close()


def test_trouble_that_lasts_costs_no_memory(tmp_path: Path, rng: Rng) -> None:
    """Every query raises the same error, whose traceback does not grow."""
    grown = keyed(tmp_path)
    grow(grown, rng, 0)
    live = LiveStream(grown.path, follow=False)
    live._follower.record_failure(StorageError("the disk is away"))
    raised = []
    for _ in range(3):
        with pytest.raises(StorageError, match="away") as error:
            live.answer(0.5)
        raised.append(len(traceback.extract_tb(error.value.__traceback__)))
    assert raised[0] == raised[-1]
    grown.history.close()


def test_threads_query_while_another_polls(tmp_path: Path) -> None:
    """Batch b has the values 1000*k + b; the count at a version determines the batches of an answer."""
    rows, batches, ended = 30, 15, Event()

    def batch(b: int) -> Any:
        return np.random.default_rng(b).integers(-40, 40, rows) * 1000.0 + b

    def hosts(values: Any) -> Any:
        return np.where(values // 1000 % 2 == 0, "even", "odd")

    def query(seed: int) -> list[tuple[str, Any, Any]]:
        chance = np.random.default_rng(seed)
        answers: list[tuple[str, Any, Any]] = []
        while not ended.wait(0.005):
            last, mode = int(chance.integers(1, 100)), str(chance.choice(["quick", "accurate", "exact"]))
            known = live.n
            whole = live.answer(0.4, mode=mode)
            assert whole.n >= known
            answers += [("all", None, whole), ("last", None, live.answer(0.4, last=last, mode=mode))]
            answers += [("filter", key, live.answer(0.4, key=key, filter="f", mode=mode)) for key in (None, "odd")]
        return answers

    with small():
        history = History(tmp_path / "store", eps=0.05, kappa=2, keys="host", filters=["f"])
        live = LiveStream(history.path, follow=False, memory=20_000)
        counts: dict[int, int] = {}

        def append(b: int) -> None:
            values = batch(b)
            history.append(values, key=hosts(values), times=float(b), filters={"f": values % 3000 < 1500})

        append(0)
        live.poll()
        counts[live.version] = 1
        with ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(query, seed) for seed in range(3)]
            try:
                for b in range(1, batches):
                    append(b)
                    if b % 4 == 3:
                        history.end_step(wait=False)
                        history.vacuum(0)
                    live.poll()
                    counts[live.version] = live.n // rows
            finally:
                ended.set()
            answers = [one for task in futures for one in task.result()]
        history.close()
    checked = 0
    for kind, key, answer in answers:
        if answer.version in counts:  # else it was answered before that version was recorded
            every = np.concatenate([batch(b) for b in range(counts[answer.version])])
            chosen = every if kind != "last" else every[-answer.n :]
            if kind == "filter":
                chosen = every[(every % 3000 < 1500) & ((key is None) | (hosts(every) == key))]
            assert bound_faults(chosen, answer) == []
            assert answer.error <= (0 if answer.mode == "exact" else 0.05 + 1e-12)
            checked += 1
    assert checked > 10


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no history"):
        LiveStream(tmp_path)


def test_an_empty_store(tmp_path: Path) -> None:
    """An empty store can be opened before anything is appended; the stream then follows it."""
    history = History(tmp_path)
    live = LiveStream(tmp_path, follow=False)
    assert (live.n, live.newest, live.keys(), live.stats()["recent_files"]) == (0, None, [], 0)
    questions: list[dict[str, Any]] = [{}, {"last": 3}, {"within": 5}]
    for scope in questions:
        with pytest.raises(ValueError, match=r"empty|no values"):
            live.answer(0.5, **scope)
    history.append([1.0, 2.0])
    assert live.poll()
    assert live.answer(0.5, last=3).n == live.answer(1, within=5).n == live.n == 2
    history.close()


def test_a_missing_list_of_recent_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with History(tmp_path) as history:
        history.append([1.0, 2.0])
    (found,) = tmp_path.glob("_quantide/recent/*.manifest")
    found.unlink()
    with LiveStream(tmp_path, follow=False) as live:  # the log has a copy
        assert live.answer(1, last=2).n == 2
    for copy in ("find_manifest_copy", "_copied_manifest"):  # as of a list that is too large for one
        monkeypatch.setattr(StreamTable, copy, lambda *_: None)
    with pytest.raises(CorruptBytesError, match="missing"):
        LiveStream(tmp_path)
    assert History(tmp_path).answer(1).n == 2
