"""The page about history and stream: words. Its tables are in tables_history.py, its figures in figures_history.py."""

from benchmarks import table
from benchmarks.page import prose
from benchmarks.report import Report
from characterization import tables_history as tables
from characterization.figures_history import figures, grouped, history_curves, stream_curves
from characterization.growth import last_exponent
from characterization.history_watch import PARTS

__all__ = ["figures", "headlines", "render"]

HOW = """Figures 4 to 13 of Singh, Srivastava, Tirthapura, "Estimating quantiles from the union of historical and
    streaming data" (PVLDB 10(4), 2016), for `quantide.history`, on data that is made and not downloaded: normal and
    uniform as in the paper; network, bytes of flows with a heavy tail and many equal values; latency, three kinds of
    requests that are slower in the daytime. {questions} questions, evenly spaced over all ranks, file cache warm.
    Errors are ranks between what was asked and what was found, counted among all values; certified: the largest that
    an answer itself stated. In the figures no error at all is drawn as if one question were off by one rank."""
MEMORY = """Figure 4. {steps} steps of {small_values:,} float32 values and an open one, kappa = {kappa}. Used: bytes
    that questions look at; a budget is shared out as for a million steps. Beside it GK and q-digest over the whole
    stream in about as much, counted without room to grow. Mean errors, as fractions of all values; the last columns
    are how many times that of accurate answers they are."""
KAPPA = """Figure 5. The same steps with a budget of {small_memory:,} bytes. Allowed: eps times the values of the open
    step, whatever kappa is."""
UPDATES = """Figures 6 and 7: a step on average. Load: its data files are written; sort: its values are sorted;
    summary: its side files are made; merge: all that the end of a step does but commits; commit: commits of the Delta
    table, and what is left. Beside them what GK and q-digest take for the same values. Small steps have
    {small_values:,} values; large ones {step_values:,} float64, with a budget of {memory:,} bytes from here on. Blocks
    have 65,536 values."""
ACCESSES = """Figure 8: how many of {steps} large steps read and wrote so many blocks, merges included."""
QUESTIONS = """Figures 9 and 10, the normal data set. Accurate answers read at most one block of each run, quick ones
    none. The table is about large steps; index: bytes that questions look at."""
WINDOWS = """Figure 11: the last steps that can be asked about as steps go by; each window includes the open step. After
    {steps} steps:"""
HISTORY = """Figure 12. Steps of {step_values:,} values, kappa = {kappa}; the open step always has as many. Each time
    the store is opened anew. Errors are in ranks: allowed is eps times the values of the open step. A step: on average
    over all so far."""
STREAM = """Figure 13. {stream_steps} steps of {step_values:,} values, and an open step that grows by appends of
    {chunk:,}. The first question after an append feeds the sketch of the open step."""
GROWTH = """The exponent c of y ~ x^c (0: does not grow; 1: grows in proportion), over the whole range and between the
    last two points."""


def render(report: Report) -> str:
    parts = [
        "# History and stream: how they grow",
        HOW,
        "## Error and memory",
        MEMORY,
        "![Error by memory](history-memory.svg)",
        tables.memory(report),
        "## Error and kappa",
        KAPPA,
        "![Error by kappa](history-kappa.svg)",
        tables.data_kappas(report),
        "## Updates",
        UPDATES,
        "![Time and blocks of a step](history-updates.svg)",
        tables.memory_updates(report),
        tables.kappas(report),
        ACCESSES,
        tables.accesses(report),
        "## Questions",
        QUESTIONS,
        "![Time and blocks of a question](history-questions.svg)",
        tables.questions(report),
        "## Windows",
        WINDOWS,
        windows_after(report),
        "![Windows as steps go by](history-spans.svg)",
        tables.windows(report),
        "## More history",
        HISTORY,
        "![Growth with history](history-growth.svg)",
        tables.history(report),
        GROWTH,
        tables.growth(history_curves(report)),
        "## A larger stream",
        STREAM,
        "![Growth with the stream](history-stream.svg)",
        tables.stream(report),
        tables.growth(stream_curves(report)),
    ]
    told = [part if part.startswith(("|", "#", "!", "-")) else prose(part.format(**report.settings)) for part in parts]
    return "\n\n".join(part.strip("\n") for part in told)


def windows_after(report: Report) -> str:
    """The windows there are in the end, a line for each kappa."""
    last = {kappa: rows[-1]["last_steps"].split() for kappa, rows in grouped(report.rows["spans"], "kappa").items()}
    return "\n".join(f"- kappa = {kappa}: {', '.join(sizes)}" for kappa, sizes in last.items())


def headlines(report: Report) -> list[str]:
    s, first, last = report.settings, report.rows["history"][0], report.rows["history"][-1]
    usual = next((row for row in report.rows["kappas"] if row["kappa"] == s["kappa"]), report.rows["kappas"][-1])
    parts = ", ".join(f"{part} {tables.ms(usual[part])}" for part in PARTS)
    error = next(curve for curve in stream_curves(report) if curve.name == "accurate")
    return [
        *(
            f"{peer} over everything has {tables.times(report, peer)} the error of a history in equal memory"
            for peer in tables.PEERS
        ),
        f"{tables.ms(sum(usual[part] for part in PARTS))} for a step of {s['step_values']:,} values of a history, "
        f"kappa = {usual['kappa']}: {parts}",
        f"{first['accurate_certified']:,.0f} ranks certified over {first['values']:,} values and "
        f"{last['accurate_certified']:,.0f} over {last['values']:,}, in {tables.ms(first['accurate_seconds'])} and "
        f"{tables.ms(last['accurate_seconds'])}; that history is opened in {tables.ms(last['opening'])}, its index has "
        f"{table.size(last['bytes'])}",
        f"{last_exponent(error.stated):.2f} is the exponent of the certified error by the values of the open step, at "
        f"{report.rows['stream'][-1]['stream']:,} of them",
    ]
