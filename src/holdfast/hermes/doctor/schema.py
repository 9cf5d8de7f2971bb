"""The schemas of state.db, by the number that Hermes keeps in its table `schema_version`."""

from collections.abc import Mapping

from holdfast.kernel.errors import HermesSchemaUnknown

RELEASES: Mapping[int, str] = {
    11: "0.13 or 0.14",
    12: "0.15 (unreleased)",
    13: "0.15",
    14: "0.16",
    15: "0.17 (unreleased)",
    16: "0.17",
    17: "0.18.0",
    18: "0.18 (unreleased)",
    19: "0.18.2",
    20: "0.19 (unreleased)",
    21: "0.19 (unreleased)",
    22: "0.19.0",
}
OLDEST, NEWEST = min(RELEASES), max(RELEASES)
IN_PLACE_FROM = 17  # a compression keeps the session id, and archives instead of deleting
ADDED: Mapping[int, str] = {
    13: "messages.platform_message_id and observed",
    14: "messages.active, sessions.cwd, archived and rewind_count, the table compression_locks",
    17: "messages.compacted, sessions.session_key, chat_id, chat_type and thread_id",
    19: "the table gateway_routing, sessions.expiry_finalized, display_name and origin_json",
    22: "messages.api_content and effect_disposition, sessions.profile_name, the tables session_model_usage and "
    "async_delegations",
}


def check_schema(version: int, path: str) -> None:
    """Raises `HermesSchemaUnknown` for a schema that the doctor was not written for."""
    if version > NEWEST:
        what = f"{path} has schema {version}; the newest known one is {NEWEST}, of Hermes {RELEASES[NEWEST]}"
        raise HermesSchemaUnknown(what, path=path, schema=version)
    if version not in RELEASES:
        what = f"{path} has schema {version}; the oldest known one is {OLDEST}, of Hermes {RELEASES[OLDEST]}"
        raise HermesSchemaUnknown(what, path=path, schema=version)


def still_to_add(version: int) -> tuple[str, ...]:
    """What a newer Hermes adds to a database of this version when it opens it."""
    return tuple(f"schema {number}: {what}" for number, what in ADDED.items() if number > version)
