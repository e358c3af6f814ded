"""Distribution of tests over the processes of pytest-xdist, `--dist loadgroup`.

Tests of a file run in one process and share its fixtures. The tests with Spark share one session in one process, and
those of the page one browser and one demo in another. The tests with bounds checks compile kernels one after the other.
These groups take longest, so they start first. They often wait, so a third process keeps two cores busy.
"""

from collections.abc import Iterable

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

GROUPS = {
    "spark": ("spark", "kafka"),
    "browser": ("browser",),
    "bounds": ("bounds",),
}  # words of paths; a path belongs to the first group that has one


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Scheduler that runs the rest of a group in a new process when a test ended the one it ran in.

    The scheduler of pytest-xdist 3.8 runs that test again, and again. It also waits forever when the rest of a group is
    a single test, because a worker starts a test only when it knows the next one.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::")[0]
        groups = (name for name, words in GROUPS.items() if any(word in path for word in words))
        return next(groups, path)

    def _assign_work_unit(self, node: WorkerController) -> None:
        first = next((name for name in GROUPS if name in self.workqueue), None)
        if first:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Put what is left of a worker's groups back into the queue; return the test that was running, if any."""
        groups = self.assigned_work.pop(node)
        pending = {scope: [id for id, done in unit.items() if not done] for scope, unit in groups.items()}
        crashed = next((id for ids in pending.values() for id in ids), None)
        for scope, ids in pending.items():
            self._put(scope, (id for id in ids if id != crashed))
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def _put(self, scope: str, ids: Iterable[str]) -> None:
        unit = dict.fromkeys(ids, False)
        if unit:
            self.workqueue[scope] = unit

    def _reschedule(self, node: WorkerController) -> None:
        """Assign groups until the worker has more than two tests to run; end it when the queue is empty."""
        if node.shutting_down:
            return
        while self.workqueue and self._pending_of(self.assigned_work[node]) <= 2:
            self._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()
