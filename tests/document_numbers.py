"""Numbers with a unit that documents and templates may say without a mark: settings, limits, definitions, examples.

Nothing here was measured. What was measured stands between marks (bench/documents.py), or in a template's expressions.
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
        r"times (?:as|the|faster|slower|more|less|fewer|larger|smaller|closer|before)",
    )
)
SMALL = r"(?:two|three|four|five|six|seven|eight|nine|ten)"
PART = r"(?:half|(?:third|quarter|fifth|sixth|seventh|eighth|ninth|tenth|twentieth|fiftieth|hundredth|thousandth)s?)"
NUMBER = re.compile(rf"(?<![\w.^/*])\d[\d,.]*[ -]?(?:{UNIT})(?![\w/])")
IN_WORDS = re.compile(rf"\b{WORD} (?:of )?(?:{RARE})(?!\w)")
SHARES = re.compile(  # "less than a hundredth of the value", "four of five queries"; limits are "at most half of"
    rf"\b(?:(?:less|more) than|about|some|nearly|almost|roughly|takes?|took) (?:an? |{SMALL} )?{PART} of\b"
    rf"|\b{SMALL} (?:of|in|out of) {SMALL}\b"
)
CODE = re.compile(r"^```.*?^```|^ {4}.*?$|`[^`]+`", re.S | re.M)
FIGURE = re.compile(r"<!-- figure: [\w-]+ -->.*?<!-- /figure -->", re.S)
EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.S)
BAR = re.compile(r"\bBars?: [^|]*?[.;](?= |$)")  # what we want to reach


def typed(text: str, allowed: tuple[str, ...] = ()) -> list[str]:
    """Numbers with a unit outside code, marks and what is allowed, each with the words before and after it."""
    prose = BAR.sub("", " ".join(CODE.sub("`code`", FIGURE.sub("", text)).split()))
    for words in allowed:
        prose = prose.replace(words, "")
    found = [match for pattern in (NUMBER, IN_WORDS, SHARES) for match in pattern.finditer(prose)]
    return [prose[max(0, match.start() - 40) : match.end() + 20] for match in found]


def prose_of(name: str, template: str) -> str:
    """Return the prose of a template: without expressions, and of the papers' headlines only our explanations."""
    if name == "papers.txt":
        headlines = [line.split(" | ") for line in template.splitlines() if " | " in line]
        template = "\n\n".join(f"{line[5]}\n\n{' '.join(line[9:])}" for line in headlines)
    return EXPRESSION.sub("", template)


ALLOWED: dict[str, tuple[str, ...]] = {
    "README.md": ("with 99% probability",),
    "docs/alarms.md": (
        "At most 31 days",
        "any 2xx response within 10 seconds is a success",
        "8 ... seconds, at most 5 minutes",
    ),
    "docs/api.md": (
        "50 times a second (5 times in an object store)",
        "reads nothing for 30 seconds",
        "not polled for 10 seconds",
        "up to 32 MB in total",
        "polls for commits 50 times a second",
    ),
    "docs/client.md": ("is silent for 40 seconds", "doubles from 0.1 to 30 seconds"),
    "docs/commands.md": (
        "eight symbols and about 2,000 ticks a second",
        "eight times as wide for 40 seconds",
        "increasing pause (1 s to 60 s)",
        "warns below 5 GB or 10%",
    ),
    "docs/sources/push.md": (
        "wait for ingestion | 1 GB, 20,000 |",
        "the largest batch of landing files | 1 GiB |",
        ", 32 MB. Its rows may take eight times as much in memory;",
        "A key is remembered for 24 hours",
        "arrive within a few milliseconds share one",
    ),
    "docs/deploy.md": (
        "a data file of up to 512 MB for each task",
        "replaces its lease every 4 seconds",
        "not renewed for 15 seconds",
    ),
    "docs/first-hour.md": (  # how long a reader may take, and what the page sets
        "3 GB of disk",
        "Install (6 minutes)",
        "Push your first values (3 minutes)",
        "the demo (3 minutes)",
        "the value that 99% of all values do not exceed",
        "a real source (10 minutes)",
        "After 20 seconds or so",
        "by default 5 seconds",
        "so 1 ms is enough",
        "Read an answer (8 minutes)",
        "sorted by `code`: 99% of",
        "the bounds (5 minutes)",
        "Set an alarm (8 minutes)",
        "the last 15 seconds is above 100 ms for 2 seconds",
        "It takes about 23 seconds",
        "arrives 5 to 20 seconds after the incident",
        "about 20 seconds after it ends",
        "under the hood (10 minutes)",
    ),
    "docs/guarantees/lease.md": (
        "was the newest at most 30 seconds ago",
        "is younger than 30 seconds, and entries younger than 36 seconds",
        "replaces every 4 seconds",
        "usually after less than 4 seconds",
        "does not change for 15 seconds",
        "paused for more than 15 seconds",
    ),
    "docs/guarantees/history.md": ("or 0 if that is less than 2 MB",),
    "docs/guarantees/live.md": ("if they are less than half of a file",),
    "docs/guarantees/queries.md": ("has more than half of its life left",),
    "docs/guarantees/windows.md": ("between 0.4 and 1.4 times eps",),
    "docs/live.md": (
        "checks for new commits 50 times a second (5 times in an object store)",
        "by default 24 hours",
        "within the option `code` (1 GiB)",
    ),
    "docs/notebooks.md": ("without the outermost 1%", "makes the band at most 0.05% of ranks wider"),
    "docs/page.md": ("is more than 15 seconds old", "rank off by at most 114 (0.19 %)"),
    "docs/security.md": (
        "again every 5 seconds when something is sent, which is every 15 seconds at least: they end within 20 seconds",
        "A session ends after 12 hours",
        "(32 MB), counted while it is received",
        "complete within 30 seconds",
        "about 64 KB (431), within 15 seconds",
        "idle time between requests | 20 seconds",
        "64 KB in the kernel",
        "disconnected after 30 seconds without reading",
    ),
    "docs/spark.md": (
        "keep more than half of its values, they leave",
        "the required columns reach 64 MB",
        "A single row group may have 256 MB",
    ),
    "docs/store-format.md": (
        "replaced every 4 seconds",
        "those of the last 36 seconds",
        "chunks of four million rows and more",
        "at level 0, four times as many",
        "at most 67,108,864 (512 MB of 8 bytes)",
    ),
    "docs/sources/delta.md": ("Delta keeps entries for 30 days",),
    "docs/sources/folders.md": ("at least 0.25 s and four times as long as a listing takes",),
    "docs/streams.md": (
        "set one of the two | 1 GiB",
        "waits for ingestion | 1 GB, 20,000",
        "the cache on local disk (1 GiB; 0 for none)",
        "reads at most 64 MiB of stored columns",
        "A batch of less than 4 MiB",
    ),
    "docs/prometheus.md": (
        "about 200 million, divided by the number of quantiles",
        "time of a query | 30 s",
    ),
    "docs/tasks/grafana.md": ("begins with the last 15 minutes",),
    "docs/tasks/alarm.md": (
        "raises a false alarm in two of five windows",  # the result of the example above it, which a test runs
        "slow for 6 of every 12 seconds",
        "over four seconds is above 250 ms for one second",
        "requests above 250 ms differs from 1%",
    ),
    "docs/tasks/compare.md": (
        "(the last 30 days and today so far)",
        '"The last 30 days" include today, here 1.4% of the values',
    ),
    "docs/tasks/percentile-approx.md": ("0.1% of the ranks may be some percent of the value",),
    "bench/templates/characterization/scale.md": (
        "Renewals of the lease, one PUT every 4 s,",
        "files above 8 MiB in parts",
        "for its checksum in pieces of 8 MiB",
    ),
    "bench/templates/characterization/spark.md": ("packed into tasks of at least 8 MB",),
    "bench/templates/papers.txt": (  # of the papers, and how they are compared
        "one of today gets 100 times as many for the comparison",
        "counted as so many of the paper's 100 KB",
        "its stream summary has hundreds of megabytes",
    ),
    "bench/templates/results/breaks.md": (
        "was introduced as guaranteeing 1%",
        "each level has 32 times smaller values and 1% more of them",
        '"slow" has 0.2% more',
    ),
    "bench/templates/results/fast.md": (
        "report 60 to 300 times the speed of GK01",
        "ten times the precision costs less than 10%",
    ),
    "bench/templates/results/grafana.md": ("of a window of 5 minutes",),
    "bench/templates/results/ingest.md": ("Batches of 1 GiB of files are the default",),
    "bench/templates/results/live.md": ('with memory="1 GB"', "Memory of that reader, bar 1 GB"),
    "bench/templates/results/papers.md": ("but for a rate that is a hundred times as high",),
    "bench/templates/results/peers.md": ("| 99% ", "three of ten of them 1"),  # promised by their documentation
    "bench/templates/results/push.md": ("polled every 2 ms",),
    "bench/templates/results/serve.md": ("a median of 3 ms in mode quick",),
    "bench/templates/results/soak.md": ("full for up to 12 s", "by minutes or by up to 60 days"),
    "bench/templates/results/stream.md": ("Its error at 99% is 2.576",),
    "bench/templates/results/tails.md": ("a median of 1 ms and sigma 2.5", "buckets of its clients, up to 10 s"),
    "bench/templates/scale.md": ("Files of upper levels have up to 512 MB",),
    "docs/tasks/watch-p99.md": ("for p99, 1% lies above", "took at most 250 ms?", "within 1% of the ranks"),
}
