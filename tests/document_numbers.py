"""Numbers with a unit that documents may say without a mark: settings, limits, definitions, examples.

Nothing here was measured. What was measured stands between marks (benchmarks/documents.py).
"""

import re

UNIT = "|".join(
    (
        r"ns|us|µs|ms|s|h|min|(?:nano|micro|milli)?seconds?|minutes?|hours?|days?",
        r"[KMGT]i?B|(?:kilo|mega|giga)bytes|thousand|million|billion|M|x|times|%|percent",
        r"(?:values|rows|tuples|questions|frames|commits|ticks)(?:/s| a second)",
    )
)
WORD = r"(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|fifty|some|few|dozen|hundreds?|thousands?)"
RARE = "|".join(  # units that follow a number in words only where something was measured
    (
        r"(?:nano|micro|milli)seconds?|[KMGT]i?B|(?:kilo|mega|giga)bytes|million|billion|percent",
        r"times (?:as|faster|the)",
    )
)
NUMBER = re.compile(rf"(?<![\w.^/*])\d[\d,.]*[ -]?(?:{UNIT})(?![\w/])")
IN_WORDS = re.compile(rf"\b{WORD} (?:of )?(?:{RARE})(?!\w)")
CODE = re.compile(r"^```.*?^```|^ {4}.*?$|`[^`]+`", re.S | re.M)
FIGURE = re.compile(r"<!-- figure: [\w-]+ -->.*?<!-- /figure -->", re.S)


def typed(text: str, allowed: tuple[str, ...] = ()) -> list[str]:
    """Numbers with a unit outside code, marks and what is allowed, each with the words before and after it."""
    prose = " ".join(CODE.sub("`code`", FIGURE.sub("", text)).split())
    for words in allowed:
        prose = prose.replace(words, "")
    found = [match for pattern in (NUMBER, IN_WORDS) for match in pattern.finditer(prose)]
    return [prose[max(0, match.start() - 40) : match.end() + 20] for match in found]


ALLOWED: dict[str, tuple[str, ...]] = {
    "README.md": ("any of the top 0.11%",),
    "docs/alarms.md": (
        "At most 31 days",
        "at least 2 times the stream's eps for windows and 4 times for",
        "within 10 seconds is a success",
        "8 ... seconds, at most 5 minutes",
    ),
    "docs/api.md": (
        "50 times a second (4 times in an object store)",
        "does not read for 30 seconds",
        "not polled for 10 seconds",
        "kept, up to 32 MB of them",
        "Commits are looked for 50 times a second",
    ),
    "docs/client.md": ("says nothing for 40 seconds",),
    "docs/commands.md": (
        "of eight symbols, about 2,000 ticks a second",
        "eight times as wide for 40 seconds",
        "gets longer (1 s to 60 s)",
        "warns below 5 GB or 10%",
    ),
    "docs/first-hour.md": (  # how long a reader may take, and what the page sets
        "3 GB of disk",
        "Install (6 minutes)",
        "one look (3 minutes)",
        "the value that 99% of all do not exceed",
        "a real source (10 minutes)",
        "After 20 seconds or so",
        "5 seconds unless you say so",
        "Read an answer (8 minutes)",
        "p99 is the one at this place: 99% of",
        "its bound (5 minutes)",
        "Set an alarm (8 minutes)",
        "the last 15 seconds above 100 ms, for 2 seconds",
        "It takes about 23 seconds",
        "comes 5 to 20 seconds after the trouble",
        "about 20 seconds after it ended",
        "under the hood (10 minutes)",
    ),
    "docs/guarantees/windows.md": ("between 0.4 and 1.4 times eps",),
    "docs/live.md": ("looks for new commits, 50 times a second", "24 hours unless it was made otherwise"),
    "docs/notebooks.md": ("without the outermost 1%", "the band at most 0.05% of ranks wider"),
    "docs/page.md": ("says that for 15 seconds nothing came", "rank off by at most 0.19 %"),
    "docs/security.md": (
        "again every 5 seconds when something is sent, which is every 15 seconds at least: they end within 20 seconds",
        "It ends after 12 hours",
        "(32 MB), counted as it comes",
        "whole within 30 seconds",
        "a head of about 64 KB (431) that comes within 15 seconds, 20 seconds of idleness",
        "however much changes: 64 KB in the kernel",
        "when it makes no room for 30 seconds",
    ),
    "docs/spark-sql.md": ("a Spark row holds at most 2 GB",),
    "docs/spark.md": ("the wanted columns have 64 MB", "one row group alone may have 256 MB"),
    "docs/store-format.md": ("those of four million rows and more",),
    "docs/streams.md": (
        "one of the two | 1 GiB",
        "reads at most 64 MiB of stored columns",
        "A batch of less than 4 MiB",
    ),
    "docs/tasks/alarm.md": (
        "slow for 6 of every 12 seconds",
        "where it is not for show) above 250 ms",
        "requests above 250 ms is further than that from 1%",
    ),
    "docs/tasks/compare.md": ("The month (30 days", '"The last 30 days" contain today, here 1.4% of the values'),
    "docs/tasks/percentile-approx.md": ("0.1% of the ranks may be some percent of the value",),
    "docs/tasks/watch-p99.md": ("for p99, 1% lies above", "took at most 250 ms?", "within 1% of the ranks"),
}
