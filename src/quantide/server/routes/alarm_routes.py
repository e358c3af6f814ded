"""Routes of alarms: definition, state and history."""

import math
import sqlite3
import time
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from quantide.errors import InvalidArgumentError
from quantide.server.alarms.alarm_setting import KS, AlarmSetting
from quantide.server.alarms.alarm_state import AlarmState
from quantide.server.http.query_parameters import FILTER_TEXT, MAX_KEY, WINDOW_TEXT
from quantide.server.http.response_json import format_time, json_response
from quantide.server.http.tokens import Identity, identity_of
from quantide.server.service import Service
from quantide.server.webhooks import MAX_URL
from quantide.summary.ranks import check_eps
from quantide.windows.time_clock import read_span

MAX_HOLD = 31 * 86_400  # seconds
MAX_PAGE = 1_000

Id = Annotated[int, Path(ge=1, lt=2**63)]

LIMIT_TEXT = "A finite value of the stream's type: a number, or text for times, durations and decimals."
MEASURE_TEXT = "`ks` for the KS distance between the window and the reference `against`, instead of a quantile."
AGAINST_TEXT = "With `ks`: the reference."


def _plain(max_bytes: int) -> BeforeValidator:
    """Return a validator that accepts text, and numbers that JSON can represent."""

    def check(value: Any) -> Any:
        for part in value if isinstance(value, list) else [value]:
            text = isinstance(part, str) and len(part.encode()) <= max_bytes  # a lone surrogate cannot be encoded
            whole = isinstance(part, int) and -(2**63) <= part < 2**63
            if not (part is None or text or whole or (isinstance(part, float) and math.isfinite(part))):
                raise ValueError(f"write a number, or text of at most {max_bytes:,} bytes")
        return value

    return BeforeValidator(check)


def _reject_bool(value: Any) -> Any:
    if isinstance(value, (bool, list)):
        raise ValueError("write a number, or text")
    return value


def _reject_infinity(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(
            "an alarm with an infinite limit never fires, or never stops; write a finite number, such as 12.5"
        )
    return value


Scalar = StrictStr | StrictBool | StrictInt | StrictFloat
Key = Annotated[Scalar | Annotated[list[Scalar], Field(min_length=1, max_length=16)] | None, _plain(MAX_KEY)]
Limit = Annotated[StrictStr | StrictInt | StrictFloat | None, _plain(40), BeforeValidator(_reject_bool)]
Threshold = Annotated[Limit, BeforeValidator(_reject_infinity)]


class ReferenceRequest(BaseModel):
    """The values that an alarm compares its window with; of the same stream."""

    model_config = ConfigDict(extra="forbid")

    key: Key = Field(None, description="The key, null for all keys (the alarm's).")
    window: str = Field("all", description=WINDOW_TEXT, examples=["steps:7"], max_length=80)
    filter: str | None = Field(None, description="A filter, null for none (the alarm's).", max_length=100)


class AlarmRequest(BaseModel):
    """An alarm to create."""

    model_config = ConfigDict(extra="forbid")

    stream: str = Field(max_length=100)
    measure: Literal["quantile", "ks"] = Field("quantile", description=MEASURE_TEXT)
    phi: float | None = Field(
        None, ge=0, le=1, strict=True, description="Which quantile: 0.5 is the median.", examples=[0.99]
    )
    against: ReferenceRequest | None = Field(None, description=AGAINST_TEXT, examples=[{"window": "steps:7"}])
    above: Threshold = Field(None, description=f"Fire when the quantile is above this. {LIMIT_TEXT}", examples=[250])
    below: Threshold = Field(None, description=f"Fire when the quantile is below this; one of the two. {LIMIT_TEXT}")
    clear: Threshold = Field(
        None, description="Cease when the quantile is not beyond this, on the other side of the threshold (the same)."
    )
    hold: Limit = Field(
        0, description="How long, in seconds or as text, this must last without a break.", examples=["30 s"]
    )
    key: Key = Field(None, description="The key; a list where keys have several columns.")
    window: str = Field("all", description=WINDOW_TEXT, examples=["within:5m"], max_length=80)
    filter: str | None = Field(None, description=FILTER_TEXT, max_length=100)
    eps: float | None = Field(None, strict=True, description="The precision; at least twice that of the window.")
    name: str | None = Field(None, max_length=200)
    webhook: str | None = Field(
        None, max_length=MAX_URL, description="A URL that is notified when the alarm begins and ceases to fire."
    )

    def setting(self, owner: str) -> AlarmSetting:
        if (self.above is None) == (self.below is None):
            raise InvalidArgumentError("an alarm has one threshold: give either above or below")
        self._check_measure()
        threshold = self.below if self.above is None else self.above
        setting = AlarmSetting(
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
            hold=_read_hold(self.hold),
            webhook=self.webhook,
            owner=owner,
            created=time.time(),
            measure=self.measure,
            against=self._reference(),
        )
        if setting.against_scope == setting.scope:
            raise InvalidArgumentError(
                f"against is the window itself, {self.window}; give another window, key or filter"
            )
        return setting

    def _check_measure(self) -> None:
        """Raise if a field is missing or does not belong to the measure."""
        if self.measure != KS:
            if self.phi is None:
                raise InvalidArgumentError("an alarm on a quantile needs phi: 0.99 is p99")
            if self.against is not None:
                raise InvalidArgumentError('against belongs to an alarm on the KS distance; give measure "ks", not phi')
            return
        for name in ("phi", "below", "eps"):
            if getattr(self, name) is not None:
                raise InvalidArgumentError(f"an alarm on the KS distance has no {name}; leave it out, and give above")
        if self.against is None:
            raise InvalidArgumentError('an alarm on the KS distance needs against, such as {"window": "steps:7"}')

    def _reference(self) -> dict[str, Any] | None:
        """Return the reference; its key and filter are those of the alarm unless they are given."""
        if self.against is None:
            return None
        own = {"key": self.key, "window": "all", "filter": self.filter}
        return own | self.against.model_dump(exclude_unset=True)


class TransitionQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limit: int = Field(100, ge=1, le=MAX_PAGE, description="Number of transitions, at most.")
    before: int | None = Field(None, ge=1, lt=2**63, description="Only those before this number: `next` of a page.")


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/alarms", tags=["alarms"])
    alarms, webhooks, outbox = service.alarms, service.webhooks, service.outbox

    def find_alarm(request: Request, id: int) -> AlarmState:
        """Return an alarm; raise if there is none, or if the client may not use its stream."""
        alarm = alarms.get(id)
        identity_of(request).check_stream(alarm.setting.stream, f"alarm {id}")
        return alarm

    def encode(alarm: AlarmState, full: bool) -> dict[str, Any]:
        return alarms.read_consistent(lambda: encode_alarm(alarm, outbox.last_of(alarm.id), full))

    @router.post("", summary="Create an alarm")
    async def add(request: Request, body: AlarmRequest) -> Response:
        identity_of(request).check_stream(body.stream)
        setting = body.setting(identity_of(request).id)
        if setting.webhook is not None:
            webhooks.check_url(setting.webhook)
        alarm = await service.compute(lambda: alarms.add(setting))
        return json_response(await service.compute(lambda: encode(alarm, True)), 201)

    @router.get("", summary="All alarms and their states")
    async def list_alarms(request: Request) -> Response:
        identity = identity_of(request)

        def encode_all() -> list[dict[str, Any]]:
            deliveries = outbox.last()
            return [
                encode_alarm(alarm, deliveries.get(alarm.id), may_see_webhook(alarm, identity))
                for alarm in alarms.list_alarms()
                if identity.may_use(alarm.setting.stream)
            ]

        return json_response({"alarms": await service.compute(lambda: alarms.read_consistent(encode_all))})

    @router.get("/{id}", summary="One alarm")
    async def one(request: Request, id: Id) -> Response:
        alarm = find_alarm(request, id)
        full = may_see_webhook(alarm, identity_of(request))
        return json_response(await service.compute(lambda: encode(alarm, full)))

    @router.delete("/{id}", summary="Drop an alarm", status_code=204)
    async def drop(request: Request, id: Id) -> Response:
        identity = identity_of(request)
        find_alarm(request, id)
        await service.compute(lambda: alarms.drop(id, None if identity.has_role("admin") else identity.id))
        return Response(status_code=204)

    @router.get("/{id}/history", summary="The transitions of an alarm, newest first")
    async def history(request: Request, id: Id, query: Annotated[TransitionQuery, Query()]) -> Response:
        find_alarm(request, id)
        transitions = await service.compute(lambda: alarms.history(id, query.before, query.limit))
        more = transitions[-1]["number"] if len(transitions) == query.limit else None
        return json_response({"transitions": transitions, "next": more})

    return router


def encode_alarm(alarm: AlarmState, delivery: sqlite3.Row | None, full: bool) -> dict[str, Any]:
    """Return the fields of an alarm; only with `full` the path of its webhook, which may be a secret."""
    setting, url = alarm.setting, alarm.setting.webhook
    return (
        {"id": alarm.id}
        | setting.to_json()
        | {"eps": None if alarm.window is None else alarm.window.precision(alarm.conditions)}
        | {
            "webhook": url if full or url is None else "{0.scheme}://{0.netloc}".format(urlsplit(url)),
            "owner": setting.owner,
        }
        | {"created": format_time(setting.created)}
        | alarm.status(alarm.machine, alarm.since)
        | {"delivery": None if delivery is None else encode_delivery(delivery)}
    )


def encode_delivery(row: sqlite3.Row) -> dict[str, Any]:
    """Return the fields of the last webhook delivery."""
    result = "delivered" if row["error"] is None else "given up"
    return {
        "id": row["id"],
        "status": result if row["due"] is None else "waiting",
        "attempts": row["attempts"],
        "error": row["error"],
        "next": None if row["due"] is None else format_time(row["due"]),
    }


def may_see_webhook(alarm: AlarmState, identity: Identity) -> bool:
    """Return True if the identity is an admin or the alarm's owner."""
    return identity.has_role("admin") or alarm.setting.owner == identity.id


def _read_hold(hold: Any) -> float:
    seconds = 0.0 if hold in (None, 0) else float(read_span(hold))
    if seconds > MAX_HOLD:
        raise InvalidArgumentError(f"hold is at most {MAX_HOLD // 86_400} days")
    return seconds
