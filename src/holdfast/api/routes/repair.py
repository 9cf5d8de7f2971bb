"""Repairs of many deliveries, replies and messages at once. Each has a dry run, which is its plan."""

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import HttpCall, route
from holdfast.api.shapes.repair import RepairReport, RepairWish
from holdfast.audit.action import Act
from holdfast.repair.plan import RepairSubject, RepairVerb


async def _repair(call: HttpCall, verb: RepairVerb, subject: RepairSubject) -> RepairReport:
    return await call.viewer.overview(subject.plural).repair(verb, subject, call.body)


@route("POST /v1/deliveries/replay", Scope.OPERATE, body=RepairWish, act=Act.DELIVERY_REPLAYED)
async def post_replays(call: HttpCall) -> RepairReport:
    """Put parked deliveries back on their lanes, marked as late."""
    return await _repair(call, RepairVerb.REPLAY, RepairSubject.DELIVERY)


@route("POST /v1/deliveries/drop", Scope.OPERATE, body=RepairWish, act=Act.DELIVERY_DROPPED)
async def post_dropped_deliveries(call: HttpCall) -> RepairReport:
    """Give up deliveries: they stay parked with the name of the person, and their lanes go on."""
    return await _repair(call, RepairVerb.DROP, RepairSubject.DELIVERY)


@route("POST /v1/deliveries/settle", Scope.OPERATE, body=RepairWish, act=Act.DELIVERY_SETTLED)
async def post_settled_deliveries(call: HttpCall) -> RepairReport:
    """Settle deliveries in doubt as arrived, by the word of the caller."""
    return await _repair(call, RepairVerb.SETTLE, RepairSubject.DELIVERY)


@route("POST /v1/replies/resend", Scope.OPERATE, body=RepairWish, act=Act.REPLY_RESENT)
async def post_resends(call: HttpCall) -> RepairReport:
    """Resend uncertain and failed replies; a platform may then show one twice."""
    return await _repair(call, RepairVerb.RESEND, RepairSubject.REPLY)


@route("POST /v1/replies/drop", Scope.OPERATE, body=RepairWish, act=Act.REPLY_DROPPED)
async def post_dropped_replies(call: HttpCall) -> RepairReport:
    """Give up replies: they are not sent again unless somebody resends them."""
    return await _repair(call, RepairVerb.DROP, RepairSubject.REPLY)


@route("POST /v1/replies/settle", Scope.OPERATE, body=RepairWish, act=Act.REPLY_SETTLED)
async def post_settled_replies(call: HttpCall) -> RepairReport:
    """Settle uncertain replies as arrived, by the word of the caller."""
    return await _repair(call, RepairVerb.SETTLE, RepairSubject.REPLY)


@route("POST /v1/messages/drop", Scope.OPERATE, body=RepairWish, act=Act.MESSAGE_DROPPED)
async def post_dropped_messages(call: HttpCall) -> RepairReport:
    """Give up waiting messages before their turn; their senders are told."""
    return await _repair(call, RepairVerb.DROP, RepairSubject.MESSAGE)
