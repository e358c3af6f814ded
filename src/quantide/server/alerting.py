"""Routes of alarms: setting them, how they stand, what has changed."""

import math
import sqlite3
import time
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from quantide.errors import InvalidArgumentError
from quantide.server import shown
from quantide.server.alarm_setting import AlarmSetting
from quantide.server.asking import FILTER, WINDOW
from quantide.server.held import Held
from quantide.server.origins import LONGEST_URL
from quantide.server.service import Service
from quantide.server.tokens import Who
from quantide.server.words import LONGEST_KEY
from quantide.summary.ranks import check_eps
from quantide.windows.clock import read_span

LONGEST_HOLD = 31 * 86_400  # seconds
LARGEST_PAGE = 1_000

Id = Annotated[int, Path(ge=1, lt=2**63)]

LIMIT = "A value of the stream's type: a number, or text for times, durations, decimals and infinities."


def _plain(longest: int) -> BeforeValidator:
    """Lets through text, and numbers that JSON can show again."""

    def check(said: Any) -> Any:
        for part in said if isinstance(said, list) else [said]:
            text = isinstance(part, str) and len(part.encode()) <= longest  # half a character cannot be encoded
            whole = isinstance(part, int) and -(2**63) <= part < 2**63
            if not (part is None or text or whole or (isinstance(part, float) and math.isfinite(part))):
                raise ValueError(f"write a number, or text of at most {longest:,} bytes")
        return said

    return BeforeValidator(check)


def _not_bool(said: Any) -> Any:
    if isinstance(said, (bool, list)):
        raise ValueError("write a number, or text")
    return said


Scalar = StrictStr | StrictBool | StrictInt | StrictFloat
Key = Annotated[Scalar | Annotated[list[Scalar], Field(min_length=1, max_length=16)] | None, _plain(LONGEST_KEY)]
Limit = Annotated[StrictStr | StrictInt | StrictFloat | None, _plain(40), BeforeValidator(_not_bool)]


class AskedAlarm(BaseModel):
    """An alarm to set."""

    model_config = ConfigDict(extra="forbid")

    stream: str = Field(max_length=100)
    phi: float = Field(gt=0, le=1, strict=True, description="Which quantile: 0.5 is the median.", examples=[0.99])
    above: Limit = Field(None, description=f"Fire when the quantile is above this. {LIMIT}", examples=[250])
    below: Limit = Field(None, description=f"Fire when the quantile is below this; one of the two. {LIMIT}")
    clear: Limit = Field(
        None, description="Cease when the quantile is not beyond this, on the other side of the threshold (the same)."
    )
    hold: Limit = Field(
        0, description="For how long, seconds or text, it must be so without a break.", examples=["30 s"]
    )
    key: Key = Field(None, description="The key; a list where keys have several columns.")
    window: str = Field("all", description=WINDOW, examples=["within:5m"], max_length=80)
    filter: str | None = Field(None, description=FILTER, max_length=100)
    eps: float | None = Field(None, strict=True, description="The precision; at least twice that of the window.")
    name: str | None = Field(None, max_length=200)
    webhook: str | None = Field(
        None, max_length=LONGEST_URL, description="A URL that is told when it begins and ceases to fire."
    )

    def setting(self, owner: str) -> AlarmSetting:
        if (self.above is None) == (self.below is None):
            raise InvalidArgumentError("an alarm has one threshold: give either above or below")
        threshold = self.below if self.above is None else self.above
        return AlarmSetting(
            name=self.name,
            stream=self.stream,
            key=self.key,
            window=self.window,
            filter=self.filter,
            phi=self.phi,
            eps=None if self.eps is None else check_eps(self.eps),
            above=self.above is not None,
            threshold=threshold,
            clear=threshold if self.clear is None else self.clear,
            hold=_hold(self.hold),
            webhook=self.webhook,
            owner=owner,
            created=time.time(),
        )


class AskedHistory(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limit: int = Field(100, ge=1, le=LARGEST_PAGE, description="How many at most.")
    before: int | None = Field(None, ge=1, lt=2**63, description="Only those before this number: `next` of a page.")


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/alarms", tags=["alarms"])
    alarms, webhooks, outbox = service.alarms, service.webhooks, service.outbox

    def read(held: Held, whole: bool) -> dict[str, Any]:
        return alarms.still(lambda: shown_alarm(held, outbox.last_of(held.id), whole))

    @router.post("", summary="Set an alarm")
    async def add(request: Request, asked: AskedAlarm) -> Response:
        setting = asked.setting(request.state.who.id)
        if setting.webhook is not None:
            webhooks.check(setting.webhook)
        held = await service.ask(lambda: alarms.add(setting))
        return shown.json(await service.ask(lambda: read(held, True)), 201)

    @router.get("", summary="All alarms, and how they stand")
    async def all_alarms(request: Request) -> Response:
        who: Who = request.state.who

        def ask() -> list[dict[str, Any]]:
            sent = outbox.last()
            return [shown_alarm(held, sent.get(held.id), may_see(held, who)) for held in alarms.all()]

        return shown.json({"alarms": await service.ask(lambda: alarms.still(ask))})

    @router.get("/{id}", summary="One alarm")
    async def one(request: Request, id: Id) -> Response:
        held = alarms.get(id)
        return shown.json(await service.ask(lambda: read(held, may_see(held, request.state.who))))

    @router.delete("/{id}", summary="Drop an alarm", status_code=204)
    async def drop(request: Request, id: Id) -> Response:
        who: Who = request.state.who
        await service.ask(lambda: alarms.drop(id, None if who.may("admin") else who.id))
        return Response(status_code=204)

    @router.get("/{id}/history", summary="What has changed of an alarm, the newest first")
    async def history(id: Id, asked: Annotated[AskedHistory, Query()]) -> Response:
        found = await service.ask(lambda: alarms.history(id, asked.before, asked.limit))
        more = found[-1]["number"] if len(found) == asked.limit else None
        return shown.json({"transitions": found, "next": more})

    return router


def shown_alarm(held: Held, delivery: sqlite3.Row | None, whole: bool) -> dict[str, Any]:
    """An alarm; the path of its webhook may be a secret, so only `whole` has it."""
    setting, url = held.setting, held.setting.webhook
    return (
        {"id": held.id}
        | setting.shown()
        | {"eps": None if held.window is None else held.window.precision(held.conditions)}
        | {
            "webhook": url if whole or url is None else "{0.scheme}://{0.netloc}".format(urlsplit(url)),
            "owner": setting.owner,
        }
        | {"created": shown.moment(setting.created)}
        | held.standing(held.alarm, held.since)
        | {"delivery": None if delivery is None else shown_delivery(delivery)}
    )


def shown_delivery(row: sqlite3.Row) -> dict[str, Any]:
    """The last message to a webhook."""
    ended = "delivered" if row["error"] is None else "given up"
    return {
        "id": row["id"],
        "status": ended if row["due"] is None else "waiting",
        "attempts": row["attempts"],
        "error": row["error"],
        "next": None if row["due"] is None else shown.moment(row["due"]),
    }


def may_see(held: Held, who: Who) -> bool:
    """Whether all of an alarm is this one's business."""
    return who.may("admin") or held.setting.owner == who.id


def _hold(said: Any) -> float:
    seconds = 0.0 if said in (None, 0) else float(read_span(said))
    if seconds > LONGEST_HOLD:
        raise InvalidArgumentError(f"hold is at most {LONGEST_HOLD // 86_400} days")
    return seconds
