"""Errors, updates and questions with more and more memory, beside the peers in equal memory: Figures 4, 6 and 9."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Row, say
from characterization.history_data import SETS, step_values
from characterization.history_peers import PEERS
from characterization.history_settings import Settings
from characterization.history_trial import trial


def measure(settings: Settings) -> dict[str, list[Row]]:
    errors: list[Row] = []
    updates: list[Row] = []
    for name in SETS:
        steps = small_steps(name, settings)
        for memory in settings.memories:
            say(f"history: {name}, {memory:,} bytes, beside GK and q-digest")
            found, cost = _measure(steps, memory, settings)
            errors += [{"data": name, "memory": memory, **row} for row in found]
            updates.append({"data": name, "memory": memory, **cost})
    return {"memory": errors, "memory_updates": updates}


def small_steps(name: str, settings: Settings) -> list[NDArray[np.float32]]:
    """Float32: q-digest needs a universe of 32 bits."""
    return [step_values(name, step, settings.small_values).astype(np.float32) for step in range(settings.steps + 1)]


def _measure(steps: list[NDArray[np.float32]], memory: int, settings: Settings) -> tuple[list[Row], Row]:
    """What each method finds, and what a step costs it."""
    with trial(settings, memory, settings.kappa, "float32") as t:
        t.fill(steps)
        asked = {mode: t.ask(mode) for mode in ("accurate", "quick")}
        used = t.history.index_nbytes
        found = [{"method": mode, "bytes": used, **row} for mode, row in asked.items()]
        cost = t.cost()
    for peer in PEERS:
        cost[peer.name], row = peer.measure(steps, used, settings.phis(), t.truth)
        found.append({"method": peer.name, **row})
    return found, cost
