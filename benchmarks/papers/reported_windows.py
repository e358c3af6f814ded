"""What RECENT and CONSTRAINED report."""

from benchmarks.papers import measured_windows as windows
from benchmarks.papers.headline import Headline

FAR_BELOW = "figure only: actual errors are far below the guaranteed precision"
COUNTED = "figure only: the space is below the theoretical bound"
RECENT = (
    Headline(
        "RECENT",
        "SW: mean error",
        "studies, errors by distribution",
        FAR_BELOW,
        1,
        "eps",
        windows.mean_error("SlidingWindow"),
    ),
    Headline(
        "RECENT",
        "SW: worst error",
        "studies, errors by distribution",
        "figure only: maximum errors come near the bound",
        1,
        "eps",
        windows.worst_error("SlidingWindow"),
    ),
    Headline(
        "RECENT",
        "SW: error by order",
        "studies, errors by distribution",
        "figure only: not sensitive to the distribution of data (the scan has lost its small words)",
        1,
        "the same for all",
        windows.orders("SlidingWindow"),
        why="""a bucket leaves as a whole, so up to half of eps of the oldest values is missing at times; on sorted or
            reversed input those are the smallest or the largest ones, and every rank moves the same way. The bound
            holds for every order; random orders use little of it.""",
    ),
    Headline(
        "RECENT",
        "SW: space",
        "studies, space by distribution",
        COUNTED,
        1,
        "its bound",
        windows.space("SlidingWindow"),
    ),
    Headline(
        "RECENT",
        "SW: space, small windows",
        "studies, space by eps",
        COUNTED,
        1,
        "its bound",
        windows.small_space,
        why="""small windows are kept as they are: answers are exact and updates cheap, for more values than buckets
            would hold.""",
    ),
    Headline(
        "RECENT",
        "n of N: mean error",
        "studies, errors of nN",
        FAR_BELOW,
        1,
        "eps",
        windows.mean_error("RecentWindow"),
    ),
    Headline(
        "RECENT",
        "n of N: worst error",
        "studies, errors of nN",
        FAR_BELOW,
        1,
        "eps",
        windows.worst_error("RecentWindow"),
    ),
    Headline("RECENT", "n of N: any n", "studies, errors of nN", FAR_BELOW, 1, "eps", windows.any_n),
    Headline(
        "RECENT",
        "n of N: space",
        "studies, space of nN",
        COUNTED,
        1,
        "its bound",
        windows.space("RecentWindow"),
    ),
)

MUCH_LOWER = 'figure only: "much lower than the guaranteed value"'
MUCH_LESS = 'figure only: "much less than the given theoretical bound"'
CONSTRAINED = (
    Headline("CONSTRAINED", "T: worst error", "5.1, Figure 5", MUCH_LOWER, 1, "eps", windows.span_error),
    Headline("CONSTRAINED", "T: space", "abstract; 5.1, Figure 6", MUCH_LESS, 1, "its bound", windows.span_space),
    Headline(
        "CONSTRAINED",
        "T: space by span",
        "5.1, Figure 6 (a)",
        'figure only: "increases very slowly"',
        1,
        "in proportion",
        windows.span_growth,
    ),
    Headline("CONSTRAINED", "N,f: worst error", "5.2, Figure 8 (b)", "figure only", 1, "eps", windows.filter_error),
    Headline("CONSTRAINED", "N,f: space", "5.2, Figure 8 (b)", "figure only", 1, "its bound", windows.filter_space),
    Headline(
        "CONSTRAINED",
        "stream rate",
        "5.1, Figure 7 (a)",
        '"> 500 tuples/s", means over 16 insertions',
        500,
        "500 a second",
        windows.rate("batch"),
        more=True,
    ),
    Headline(
        "CONSTRAINED",
        "stream rate, blocks",
        "5.1, Figure 7 (a)",
        '"> 500 tuples/s"',
        500,
        "500 a second",
        windows.rate("block"),
        more=True,
    ),
)
