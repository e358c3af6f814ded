"""What a request may say, for the routes that ask about one stream; unknown parameters are refused, not ignored."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from quantide.errors import InvalidArgumentError
from quantide.live.stream import LiveStream
from quantide.server import words

LEAST = 5e-324  # the smallest phi: it asks for the smallest value
Phi = Annotated[float, Field(gt=0, le=1)]

KEY = "The key; again for each column where keys have several."
WINDOW = "`all`, `last:10000`, `within:5m`, `last:10000,within:5m`, or `steps:7`."
FILTER = "A filter that the stream declares: only values that satisfy it."
MODE = "`quick` reads no data, `accurate` is off by eps of the open step or of the window, `exact` is exact."
BAND = "Each answer also has `low` and `high`, values that came, between which the true quantile is proved to lie."
NOW = "With a window of time: where it ends, instead of the newest time."


class About(BaseModel):
    """The window that is asked about."""

    model_config = ConfigDict(extra="forbid")

    key: list[str] | None = Field(None, description=KEY, max_length=16)
    window: str = Field("all", description=WINDOW, examples=["within:5m"], max_length=100)
    filter: str | None = Field(None, description=FILTER, max_length=100)
    now: str | None = Field(None, description=NOW, max_length=40)

    def words(self, live: LiveStream) -> dict[str, Any]:
        """These as the words of LiveStream.answer(), without the mode."""
        now = words.read_time(self.now, live.zoned)
        return {"key": words.read_key(self.key), "filter": self.filter, "now": now} | words.read_window(self.window)


class Asked(About):
    """A question about it, and how it is to be answered."""

    mode: Literal["quick", "accurate", "exact"] | None = Field(None, description=MODE)


class AskedQuantiles(Asked):
    phi: list[Phi] = Field(description="Which quantiles: 0.5 is the median.", examples=[[0.5, 0.99]], min_length=1)
    band: bool = Field(False, description=BAND)


class AskedRanks(Asked):
    value: list[Annotated[str, Field(max_length=40)]] = Field(
        description="Values of the stream's type.", examples=[["250"]], min_length=1
    )


class AskedCurve(Asked):
    value: list[Annotated[str, Field(max_length=40)]] | None = Field(
        None, description="Values of the stream's type; without them, `points` values evenly spread over the ranks."
    )
    points: int | None = Field(None, description="How many values, where none are given (100).", ge=2)


def check_many(name: str, count: int, most: int) -> None:
    if count > most:
        raise InvalidArgumentError(f"{count:,} {name} are asked for in one request; at most {most:,} can be")


def key_told(said: list[str] | None) -> str | list[str] | None:
    """The key of a question as its answer tells it: text, or a list where keys have several columns."""
    return said[0] if said is not None and len(said) == 1 else said
