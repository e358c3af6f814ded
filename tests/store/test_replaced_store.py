"""Store in an object store that is removed, replaced by another one, or copied, while there are readers of it."""

from collections.abc import Callable

import obstore
import pytest

from quantide.errors import StorageError
from quantide.history import History, HistoryReader
from quantide.live import LiveStream
from quantide.store.object_storage import ObjectStorage
from tests.history.writer_workload import SETTINGS
from tests.object_servers.object_location import ObjectLocation

Follow = Callable[[], object]


def write(location: ObjectLocation, value: float, commits: int) -> None:
    with History(location.uri, storage_options=location.options, **SETTINGS) as history:
        for _ in range(commits):
            history.append([value] * 10)


def remove_objects(location: ObjectLocation) -> None:
    objects = location.open()
    for listed in obstore.list(objects):
        for meta in listed:
            obstore.delete(objects, meta["path"])


def copy_objects(location: ObjectLocation, source: str, target: str) -> None:
    objects = location.open()
    for listed in obstore.list(objects, f"{source}/"):
        for meta in listed:
            obstore.copy(objects, meta["path"], target + meta["path"].removeprefix(source))


def open_followers(location: ObjectLocation) -> list[Follow]:
    reader = HistoryReader(location.uri, storage_options=location.options)
    live = LiveStream(location.uri, follow=False, storage_options=location.options)
    assert reader.n == live.answer(0.5).n == 30
    return [reader.refresh, live.poll]


def test_entries_of_another_table_are_not_applied(s3_store: ObjectLocation) -> None:
    """The entry after the newest one that a reader knows is there, but of a table that has taken the same place."""
    write(s3_store, 1.0, 3)
    followers = open_followers(s3_store)
    remove_objects(s3_store)
    write(s3_store, 2.0, 6)
    for follow in followers:
        with pytest.raises(StorageError, match="was removed or replaced"):
            follow()


@pytest.mark.parametrize("commits", [0, 3])
def test_a_reader_notices_in_the_end(s3_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch, commits: int) -> None:
    """A reader notices that its store is gone, or was replaced by one with as many versions, without a new entry."""
    write(s3_store, 1.0, 3)
    followers = open_followers(s3_store)
    remove_objects(s3_store)
    if commits:
        write(s3_store, 2.0, commits)
    for follow in followers:
        follow()  # the current version was the newest a moment ago
    monkeypatch.setattr(ObjectStorage, "trusted_seconds", 1e-9)
    for follow in followers:
        with pytest.raises(StorageError, match=r"was removed or replaced|its log is gone"):
            follow()


def test_a_copy_has_its_own_cache(s3_store: ObjectLocation) -> None:
    """A store and its copy, both written to, have different files of the same names."""
    first, second = (s3_store._replace(uri=f"{s3_store.uri}/{name}") for name in ("first", "second"))
    write(first, 0.0, 1)
    copy_objects(s3_store, "first", "second")
    for value, location in enumerate((first, second), 1):
        write(location, value, 1)
    for value, location in enumerate((first, second), 1):
        reader = HistoryReader(location.uri, storage_options=location.options)
        assert [reader.answer(1, mode).value for mode in ("exact", "quick")] == [value, value]
