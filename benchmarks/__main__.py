"""`python -m benchmarks [PART ...] [results] [--quick] [--output FOLDER]`, the parts being those of pages.PARTS."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import (
    dashboard,
    fast_paper,
    history,
    ingest,
    keys,
    live,
    page_dashboard,
    page_fast,
    page_history,
    page_ingest,
    page_keys,
    page_live,
    page_queries,
    page_serve,
    page_spark,
    page_stream,
    page_windows,
    pages,
    queries,
    serve,
    spark,
    spark_partitions,
    stream,
    windows,
)
from benchmarks.report import FOLDER, Report, say


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed against peers, in one run.")
    parser.add_argument("parts", nargs="*", metavar="|".join([*pages.PARTS, "results"]), help="default: everything")
    parser.add_argument("--quick", action="store_true", help="a smoke run of seconds; its numbers mean nothing")
    parser.add_argument("--output", type=Path, help="where JSON and pages go (default: docs/results; quick: nowhere)")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - {*pages.PARTS, "results"}:
        parser.error(f"unknown part {sorted(unknown)[0]!r}; choose from {', '.join([*pages.PARTS, 'results'])}")
    folder = options.output or (None if options.quick else FOLDER)
    chosen = [part for part in pages.PARTS if not options.parts or part in options.parts]
    begun = time.perf_counter()
    command = " ".join(["python -m benchmarks", *options.parts, *(["--quick"] if options.quick else [])])
    reports = {part: _run(part, options.quick, command, folder) for part in chosen}
    if folder is not None:
        for report in reports.values():
            say(f"wrote {report.write(folder).name}")
        pages.write(folder)
    _show(reports)
    say(f"{time.perf_counter() - begun:.0f} s")


def _run(part: str, quick: bool, command: str, folder: Path | None) -> Report:
    if part == "stream":
        return stream.run(stream.QUICK if quick else stream.Settings(), command)
    if part == "fast":
        return fast_paper.run(fast_paper.QUICK if quick else fast_paper.Settings(), command)
    if part == "queries":
        return queries.run(queries.QUICK if quick else queries.Settings(), command)
    if part == "history":
        return history.run(history.QUICK if quick else history.Settings(), command)
    if part == "windows":
        return windows.run(windows.QUICK if quick else windows.Settings(), command, folder)
    if part == "live":
        return live.run(live.QUICK if quick else live.Settings(), command, folder)
    if part == "ingest":
        return ingest.run(ingest.QUICK if quick else ingest.Settings(), command, folder)
    if part == "serve":
        return serve.run(serve.QUICK if quick else serve.Settings(), command, folder)
    if part == "dashboard":
        return dashboard.run(dashboard.QUICK if quick else dashboard.Settings(), command, folder)
    if part == "partitions":
        return spark_partitions.run(spark_partitions.QUICK if quick else spark_partitions.Settings(), command)
    if part == "spark":
        return spark.run(spark.QUICK if quick else spark.Settings(), command)
    return keys.run(keys.QUICK if quick else keys.Settings(), command)


def _show(reports: dict[str, Report]) -> None:
    """Tables with the ratios first; the one against all peers last, where the eye is."""
    if "history" in reports:
        say("\n" + page_history.render(reports["history"]))
    if "windows" in reports:
        say("\n" + page_windows.render(reports["windows"]))
    if "live" in reports:
        say("\n" + page_live.render(reports["live"]))
    if "ingest" in reports:
        say("\n" + page_ingest.render(reports["ingest"]))
    if "serve" in reports:
        say("\n" + page_serve.render(reports["serve"]))
    if "dashboard" in reports:
        say("\n" + page_dashboard.render(reports["dashboard"]))
    if "partitions" in reports:
        say("\nMany partitions (ns a row)\n\n" + page_spark.partitions_table(reports["partitions"]))
    if "spark" in reports:
        say("\nSpark (ratio: its time / ours)\n\n" + page_spark.spark_table(reports["spark"]))
    if "queries" in reports:
        say(
            "\nStanding queries (ratio: time / that of a bare sketch)\n\n"
            + page_queries.stream_table(reports["queries"])
        )
    if "keys" in reports:
        say("\nMany keys (ratio: its time / ours)\n\n" + page_keys.keys_table(reports["keys"]))
    if "fast" in reports:
        say(
            "\nFAST's figures\n\n"
            + page_fast.fast_times(reports["fast"])
            + "\n"
            + page_fast.fast_memory(reports["fast"])
        )
    if "stream" in reports:
        say("\nOur speed / the other's (* measured on fewer values)\n\n" + page_stream.stream_ratios(reports["stream"]))
    say(pages.headlines(reports))


if __name__ == "__main__":
    main()
