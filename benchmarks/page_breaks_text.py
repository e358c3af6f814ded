"""What the page of what breaks others says beside its tables. A thread is named where it was read."""

INTRO = """Inputs on which well-known methods answer worse than is believed or promised, each beside StreamSketch on
    the same values in the same order. Rank error: how far, as a share of all values, the answered value is from the
    rank that was asked for, counted by sorting; an answer that is no value of the data counts as lying between its
    neighbours; the worst of 999 quantiles (0.001 to 0.999) where no quantile is named. Proved: what StreamSketch
    itself proves for its answers, never less than its rank error here. Kept: whether a promise about ranks was kept;
    one rank is allowed to others, whose definitions of a quantile differ by that. Most of these methods are good at
    what they were made for, and many of the effects are documented: the point is what an answer without a bound does
    not say."""

TDIGEST = """Asked are quantiles of a stream whose values lie on ever smaller scales inside a gap, after the idea of
    Cormode, Mishra, Ross and Vesely, "Theory meets practice at the median", 2021. Promised is nothing today:
    DataSketches says that its t-digest has no mathematical basis for its error (apache/datasketches-python#58), while
    DuckDB's was introduced as guaranteeing 1% (duckdb/duckdb#1346). A cluster is known by its mean only; here most of
    its values lie on the other side of what comes next, so the error grows with the length, until float64 has no
    smaller scale left."""
TDIGEST_HOW = """The streams are made by `benchmarks/breaks_tdigest.py`, the same each time, and all values are finite.
    In "wide" each level has 32 times smaller values and 1% more of them; "slow" has 0.2% more, aimed at 1,000
    centroids; "narrow" fits float32, which is what ClickHouse holds. Libraries were given a level at a time and asked
    after each; databases were asked about the whole table, with one thread. Shuffled, the same values do less harm to
    most, and more to some: scales alone are enough there. Stored: as bytes, of StreamSketch its summary; held: in
    memory, by its own account (fastdigest and databases give none). StreamSketch with eps = 0.1 is there to compare at
    the memory of DataSketches' t-digest, with eps = 0.01 to compare at its bytes stored; it is exact up to 8,191
    values."""

MERGE = """Asked are quantiles of the numbers 0, 1, 2, ... that lie in many partitions, each summarised within the
    promised error. Greenwald and Khanna's summaries promise it for one stream; Spark merged them by sorting their
    tuples together, which broke the promise, and repaired that in 2019, for Spark 3 (SPARK-29336,
    apache/spark#26029). Here is the faulty merge, written by us from the description of the fault, with compression
    after each merge as a stream of partial results needs it, beside `Summary.merge`, both given the same summaries:
    the fault adds up with the number of partitions, in random order too, while it believes itself to be within the
    promise."""

SPARK = """Asked are 199 quantiles of the same numbers as Parquet files, a partition each. percentile_approx promises
    a relative error of 1/accuracy. {verdict} (Spark {version}; StreamSketch with eps = 1/accuracy, one for each
    partition, then merged)."""

VERDICTS = {
    "spark": {True: "The repaired merge keeps it in every order, and often uses all of it", False: "It was NOT kept"},
    "kll": {
        True: "no sketch was outside at any of the 999 quantiles",
        False: "a share of the sketches was outside, as the table says",
    },
    "reported": {True: "It does not happen any more", False: "It still happens"},
}

DUCKDB = {
    "integers": (
        "64-bit integers",
        """Asked is the median of 1,001 neighbours from 2^62 on, as identifiers or nanoseconds are. The answer of
        approx_quantile has the type of the column, and quantile_cont is exact but for being a DOUBLE. Both go through
        float64, whose numbers are 1,024 apart there.""",
    ),
    "times": (
        "Times in nanoseconds",
        """Asked is the median of 1,001 TIMESTAMP_NS, one a nanosecond. Nothing is promised, and quantile_disc is exact.
        approx_quantile gives microseconds.""",
    ),
    "ties": (
        "Only two values",
        """Asked are quantiles of 500 times 0 and 501 times 1,000. Nothing is promised. approx_quantile interpolates
        between centroids, so it answers with integers that are nowhere in the table.""",
    ),
    "infinite": (
        "Infinite values",
        """Asked is the 0.9-quantile of 800 numbers and 200 infinities. DuckDB holds infinities as the largest numbers,
        and quantile_disc counts them. approx_quantile leaves them out and does not say so.""",
    ),
}
DUCKDB_THREADS = """Asked are 999 quantiles of a table of {n} values, lognormal with sigma 3, several times. DuckDB's
    user interface was reported to show differing quantiles of the same data, and its makers say that approx_quantile
    may do so (duckdb/duckdb-ui#124). The answer depends on how rows are shared out to threads; StreamSketch was given
    them cut in another way in each run."""

CLICKHOUSE = {
    "integers": (
        "64-bit integers",
        """Asked is the median of 1,001 neighbours from 2^62 on. quantile() keeps all of up to 8,192 values, so it is
        exact but for its type, quantileGK has accuracy 100. What answers with a float cannot tell these integers
        apart.""",
    ),
    "timing": (
        "Times above half a minute",
        """Asked is p99 of 60,000 times from 0 to 59,999 ms. quantileTiming is documented for page loads and takes all
        above 30,000 as 30,000. That is its answer, and nothing in it says that it is a limit.""",
    ),
    "bfloat": (
        "Neighbours far from 0",
        """Asked is the median of the integers from 1,000,000 to 1,000,999. quantileBFloat16 promises a relative error
        of the value of at most 0.78125%. It keeps that; but all these numbers are the same to it, so the rank may be
        any.""",
    ),
    "reported": (
        "A case from the tracker",
        """Asked is the 0.9-quantile of 26 times 1,000, 11 times 3,000 and twice 9,000. ClickHouse/ClickHouse#22408
        tells that quantileTDigest answered 6,323 with version 21.4. {verdict}.""",
    ),
}
CLICKHOUSE_THREADS = """Asked are 999 quantiles of the numbers from 0 to {n} in random order, several times. quantile()
    is documented as a random sample of up to 8,192 values, with an answer that may differ (ClickHouse/ClickHouse#56065,
    ClickHouse/ClickHouse#34808): a standard error of 0.0055 at the median. quantileGK promises 1/accuracy and
    is held to it here; the other two promise nothing about ranks."""

KLL = """Asked are quantiles of the same values in random order, of {sketches} sketches, which toss their own coins. KLL
    promises its rank error for one question with a probability of 99%, so one answer in a hundred may be further off,
    and none says whether it is the one. Here {found}: the promise is careful, and what differs is that StreamSketch
    proves its error, and proves less than was asked for. The coins cannot be seeded, so these numbers differ a little
    from run to run."""

REQ = """Asked is a sketch with a large k, for a small error. Promised is an error that falls with k (the expected
    one is what the sketch itself says about small k, 99% sure). But k is kept in 8 bits, so 256 becomes 0 and then 4,
    without a word."""

NAN = """Given are 1,000 values, 100 of them NaN, which has no rank. No method promises anything about them.
    DataSketches leaves them out and does not say so, fastdigest refuses, StreamSketch refuses or, when asked to,
    skips and counts them."""

OTHERS = """Both are exact, on all data in memory. What may surprise is their default: pandas interpolates between the
    two neighbours, Polars takes the nearer one."""
