"""Errors, updates, questions and windows with more and more runs a level: Figures 5, 7, 8, 10 and 11."""

from collections import Counter

from benchmarks.report import Row, say
from characterization.history_data import SETS, step_values
from characterization.history_memory import small_steps
from characterization.history_settings import Settings
from characterization.history_trial import Trial, trial


def measure(settings: Settings) -> dict[str, list[Row]]:
    return {"data_kappas": errors(settings), **updates(settings)}


def errors(settings: Settings) -> list[Row]:
    """Of every data set, in small steps."""
    rows = []
    for name in SETS:
        steps = small_steps(name, settings)
        for kappa in settings.data_kappas:
            say(f"history: {name}, kappa = {kappa}")
            with trial(settings, settings.small_memory, kappa, "float32") as t:
                t.fill(steps)
                asked = {mode: t.ask(mode) for mode in ("accurate", "quick")}
                about = {"data": name, "kappa": kappa, "bytes": t.history.index_nbytes, "eps": t.history.eps}
                rows += [{**about, "mode": mode, **row} for mode, row in asked.items()]
    return rows


def updates(settings: Settings) -> dict[str, list[Row]]:
    """Of large steps: what they cost, what questions cost then, and which windows there are."""
    steps = [step_values("normal", step, settings.step_values) for step in range(settings.steps + 1)]
    found: dict[str, list[Row]] = {"kappas": [], "accesses": [], "spans": [], "windows": []}
    for kappa in settings.kappas:
        say(f"history: large steps, kappa = {kappa}")
        with trial(settings, settings.memory, kappa) as t:
            for number, values in enumerate(steps[:-1], 1):
                t.append(values)
                t.end()
                if kappa in settings.window_kappas:
                    found["spans"].append({"kappa": kappa, "step": number, "last_steps": _spans(t)})
            t.append(steps[-1])
            asked = {f"{mode}_{name}": value for mode in ("accurate", "quick") for name, value in t.ask(mode).items()}
            about = {"kappa": kappa, "runs": t.history.stats()["runs"], "bytes": t.history.index_nbytes}
            found["kappas"].append({**about, **t.cost(), **asked})
            if kappa in settings.access_kappas:
                found["accesses"] += _accesses(t, kappa)
            if kappa in settings.window_kappas:
                found["windows"] += _windows(t, kappa)
    return found


def _accesses(t: Trial, kappa: int) -> list[Row]:
    """How many steps read and wrote so many blocks."""
    steps = Counter(cost.blocks for cost in t.costs)
    return [{"kappa": kappa, "blocks": blocks, "steps": number} for blocks, number in sorted(steps.items())]


def _spans(t: Trial) -> str:
    """As text: there are many."""
    return " ".join(str(span.last_steps) for span in t.history.spans())


def _windows(t: Trial, kappa: int) -> list[Row]:
    sizes = [span.last_steps for span in t.history.spans()]
    return [{"kappa": kappa, "last_steps": size, **t.ask("accurate", size)} for size in sizes]
