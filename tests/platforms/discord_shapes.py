"""The JSON of the fake Discord: who and where, in the shapes of Discord's API reference."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from aiohttp import web

Json = dict[str, Any]
TEXT, DM, THREAD = 0, 1, 11
VIEW, SEND, READ_HISTORY = 1 << 10, 1 << 11, 1 << 16
ADMINISTRATOR, MANAGE_GUILD = 1 << 3, 1 << 5


@dataclass(eq=False)
class Bot:
    token: str
    user: Json
    content_allowed: bool = True  # the Message Content Intent is switched on in the portal
    identified: int = 0
    resumed: int = 0

    @property
    def id(self) -> str:
        return cast("str", self.user["id"])


@dataclass(eq=False)
class Room:
    """A guild's text channel, a thread of one, or a conversation of two."""

    id: str
    type: int
    name: str = ""
    guild: "Guild | None" = None
    parent: str | None = None
    recipients: list[Json] = field(default_factory=list)
    bot: Bot | None = None  # of a conversation of two
    messages: dict[str, Json] = field(default_factory=dict)
    typing: int = 0
    is_hidden: bool = False  # from every bot of its guild


@dataclass(eq=False)
class Guild:
    id: str
    name: str
    bots: dict[str, str] = field(default_factory=dict)  # bot to the role that was made for it
    rooms: list[Room] = field(default_factory=list)
    is_away: bool = False  # Discord has trouble with it, and shows it later
    owner: str = ""  # the user who made it; the guild's own id where a test does not care
    roles: dict[str, int] = field(default_factory=dict)  # made by people: role to its permissions
    members: dict[str, list[str]] = field(default_factory=dict)  # user to their roles


def shown(room: Room) -> Json:
    last = next(reversed(room.messages), None)
    common: Json = {"id": room.id, "type": room.type, "last_message_id": last, "flags": 0}
    if room.guild is None:
        return {**common, "recipients": room.recipients}
    common |= {"guild_id": room.guild.id, "name": room.name, "parent_id": room.parent, "rate_limit_per_user": 0}
    if room.type == THREAD:
        meta = {"archived": False, "auto_archive_duration": 1440, "archive_timestamp": now(), "locked": False}
        counts = {"message_count": 0, "member_count": 1, "total_message_sent": 0, "owner_id": room.guild.id}
        return {**common, **counts, "thread_metadata": meta}
    hidden = [{"id": room.guild.id, "type": 0, "allow": "0", "deny": str(VIEW)}] if room.is_hidden else []
    return {**common, "position": 0, "permission_overwrites": hidden, "nsfw": False, "topic": None}


def guild_shown(guild: Guild, bot: Bot) -> Json:
    everyone = role(guild.id, "@everyone")
    others = [{**role(own, "bot"), "managed": True, "tags": {"bot_id": owner}} for owner, own in guild.bots.items()]
    others += [{**role(own, "made"), "permissions": str(may)} for own, may in guild.roles.items()]
    me = {"user": bot.user, "roles": [guild.bots[bot.id]], "joined_at": now(), "deaf": False, "mute": False}
    return {
        "id": guild.id,
        "name": guild.name,
        "owner_id": guild.owner or guild.id,
        "roles": [everyone, *others],
        "channels": [shown(room) for room in guild.rooms if room.type != THREAD],
        "threads": [shown(room) for room in guild.rooms if room.type == THREAD],
        "members": [{**me, "flags": 0}],
        "member_count": 1,
        "joined_at": now(),
        "large": False,
        "unavailable": False,
        **dict.fromkeys(("icon", "splash", "banner", "description", "afk_channel_id", "system_channel_id")),
        **dict.fromkeys(("afk_timeout", "mfa_level", "nsfw_level", "premium_tier", "verification_level"), 0),
        **dict.fromkeys(("default_message_notifications", "explicit_content_filter", "system_channel_flags"), 0),
        **{name: [] for name in ("emojis", "stickers", "features", "voice_states", "presences", "stage_instances")},
        **{name: [] for name in ("guild_scheduled_events", "soundboard_sounds")},
        "preferred_locale": "en-US",
        "premium_progress_bar_enabled": False,
    }


def for_gateway(room: Room, message: Json) -> Json:
    """An event says where it was, and in a guild what the author is there."""
    if room.guild is None:
        return {**message, "channel_type": room.type}
    member: Json = {"nick": None, "roles": [], "joined_at": now(), "deaf": False, "mute": False, "flags": 0}
    return {**message, "guild_id": room.guild.id, "channel_type": room.type, "member": member}


def member_shown(guild: Guild, user: Json) -> Json:
    """As `GET /guilds/{guild}/members/{user}` answers: roles, and no permissions."""
    about: Json = {"nick": None, "avatar": None, "joined_at": now(), "deaf": False, "mute": False, "flags": 0}
    return {**about, "user": user, "roles": guild.members.get(user["id"], []), "pending": False}


def page(messages: list[Json], query: Any) -> list[Json]:
    """Newest first; those nearest to `after` when that is asked for."""
    limit = int(query.get("limit", 50))
    if "after" in query:
        found = [one for one in messages if int(one["id"]) > int(query["after"])][:limit]
    else:
        before = int(query.get("before", 1 << 63))
        found = [one for one in messages if int(one["id"]) < before][-limit:]
    return found[::-1]


def application(bot: Bot) -> Json:
    shown = {"id": bot.id, "name": bot.user["username"], "description": "", "icon": None, "flags": 0}
    rules = {"bot_public": True, "bot_require_code_grant": False, "verify_key": "0" * 64, "summary": ""}
    return {**shown, **rules, "owner": bot.user, "team": None, "rpc_origins": []}


def role(role_id: str, name: str) -> Json:
    flags = {"hoist": False, "managed": False, "mentionable": False, "color": 0, "position": 0, "flags": 0}
    may = str(VIEW | SEND | READ_HISTORY)
    return {"id": role_id, "name": name, "permissions": may, "icon": None, "unicode_emoji": None, **flags}


def error(status: int, code: int, message: str) -> web.Response:
    return answer({"message": message, "code": code}, status)


def answer(body: object, status: int = 200) -> web.Response:
    """As Discord answers: without a charset, which discord.py would not take for JSON."""
    return web.Response(body=json.dumps(body).encode(), status=status, content_type="application/json")


def now() -> str:
    return datetime.now(UTC).isoformat()
