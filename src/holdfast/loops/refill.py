"""Refilling: a provider gets what it missed, or an index that was lost gets everything once more."""

from collections.abc import AsyncIterator

from holdfast.core.delivery import DeliveryPolicy, Landing, Parcel
from holdfast.core.errors import InvalidInput, ProviderFailed
from holdfast.core.lane import LaneKey
from holdfast.loops.providers import Providers
from holdfast.ports.provider import Indexed
from holdfast.ports.reader import Reader
from holdfast.ports.store import Store

SESSIONS_PAGE = 50
PARCELS_PAGE = 200


async def backfill(store: Store, providers: Providers, key: LaneKey) -> int:
    """Schedule what was said before the provider was configured; how many units."""
    made, after, more = 0, "", True
    while more:
        after, units, more = await store.backfill(key.agent, _policy(providers, key), after=after, limit=SESSIONS_PAGE)
        made += units
    return made


async def rebuild(reader: Reader, providers: Providers, key: LaneKey) -> int:
    """Fill a provider's own index again from the journal; how many parcels."""
    provider = providers.get(key)
    if not isinstance(provider, Indexed):
        _policy(providers, key)
        raise InvalidInput(f"{key.provider} keeps no index of its own to rebuild", provider=key.provider)
    return await provider.rebuild(_delivered(reader, key))


async def refill(reader: Reader, providers: Providers, key: LaneKey) -> int | None:
    """Rebuild a provider's index if it is damaged or gone; None when nothing was missing. Raises `ProviderFailed`.

    A new index says that it needs it too. It lacks nothing if it has the first parcel that was ever delivered.
    """
    provider = providers.get(key)
    if not isinstance(provider, Indexed) or not (oldest := await reader.delivered_parcels(key, after=0, limit=1)):
        return None
    if (why := await provider.healthy()) is not None:  # opens the index, so that it knows
        raise ProviderFailed(why, provider=key.provider)
    if not provider.needs_rebuild:
        return None
    was_whole = await provider.landed(oldest[0][1]) is Landing.LANDED
    taken = await rebuild(reader, providers, key)
    return None if was_whole else taken


async def _delivered(reader: Reader, key: LaneKey) -> AsyncIterator[Parcel]:
    after = 0
    while page := await reader.delivered_parcels(key, after=after, limit=PARCELS_PAGE):
        for after, parcel in page:  # noqa: B007 - the last one is where the next page begins
            yield parcel


def _policy(providers: Providers, key: LaneKey) -> DeliveryPolicy:
    for policy in providers.policies(key.agent):
        if policy.provider == key.provider:
            return policy
    known = ", ".join(policy.provider for policy in providers.policies(key.agent)) or "none"
    raise InvalidInput(f"{key.agent} has no provider {key.provider!r}; it has {known}", provider=key.provider)
