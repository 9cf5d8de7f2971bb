"""Backfill and reindex: a provider gets older turns, or a lost index is rebuilt from the journal."""

import asyncio
from collections.abc import AsyncIterator

from holdfast.audit.actor import acting
from holdfast.kernel.errors import HoldfastError, InvalidInput, ProviderFailed
from holdfast.memory.delivery import DeliveryPolicy, Landing, Parcel
from holdfast.memory.lane import DispatchPolicy, LaneKey
from holdfast.memory.provider import Indexed, Provider, Providers
from holdfast.memory.replay_sql import backfill_sessions, list_delivered_parcels
from holdfast.store.ports import Database

SESSIONS_PAGE = 50
PARCELS_PAGE = 200


async def backfill(db: Database, providers: Providers, key: LaneKey) -> int:
    """Schedule the turns from before the provider was configured; the number of units."""
    made, after, more = 0, "", True
    while more:
        after, units, more = await db.write(
            backfill_sessions(key.agent, _policy(providers, key), after=after, limit=SESSIONS_PAGE, by=acting())
        )
        made += units
    return made


async def rebuild(db: Database, providers: Providers, key: LaneKey) -> int:
    """Rebuild a provider's index from the journal; the number of parcels."""
    return await check_indexed(providers, key).rebuild(_delivered(db, key))


def check_indexed(providers: Providers, key: LaneKey) -> Indexed:
    """The provider as `Indexed`. Raises `InvalidInput` if it has no index of its own."""
    provider = providers.get(key)
    if not isinstance(provider, Indexed):
        _policy(providers, key)
        raise InvalidInput(f"{key.provider} keeps no index of its own to rebuild", provider=key.provider)
    return provider


async def refill(db: Database, providers: Providers, key: LaneKey, policy: DispatchPolicy) -> int | None:
    """Rebuild a provider's index if it is damaged or missing; None if nothing was missing. Raises `ProviderFailed`.

    A new index reports `needs_rebuild` too. If it has the first delivered parcel, nothing was missing.
    """
    provider = providers.get(key)
    if not isinstance(provider, Indexed) or not (
        oldest := await db.read(list_delivered_parcels(key, after=0, limit=1))
    ):
        return None
    try:
        async with asyncio.timeout(policy.call_wait_ms / 1000):  # the provider's deliveries wait meanwhile
            landing = await _first_landing(provider, key, oldest[0][1])
    except TimeoutError as error:
        raise ProviderFailed(f"no answer within {policy.call_wait_ms} ms", provider=key.provider) from error
    except HoldfastError:
        raise
    except Exception as error:  # third-party code
        raise ProviderFailed(f"{type(error).__name__}: {error}", provider=key.provider) from error
    if landing is None:
        return None
    taken = await rebuild(db, providers, key)
    return None if landing is Landing.LANDED else taken


async def _first_landing(provider: Provider, key: LaneKey, oldest: Parcel) -> Landing | None:
    """Whether the first parcel is in an index that needs a rebuild; None if the index needs none."""
    if (why := await provider.healthy()) is not None:  # opens the index, which sets `needs_rebuild`
        raise ProviderFailed(why, provider=key.provider)
    needs_rebuild = isinstance(provider, Indexed) and provider.needs_rebuild
    return await provider.landed(oldest) if needs_rebuild else None


async def _delivered(db: Database, key: LaneKey) -> AsyncIterator[Parcel]:
    after = 0
    while page := await db.read(list_delivered_parcels(key, after=after, limit=PARCELS_PAGE)):
        for after, parcel in page:  # noqa: B007 - the next page starts after the last row
            yield parcel


def _policy(providers: Providers, key: LaneKey) -> DeliveryPolicy:
    for policy in providers.policies(key.agent):
        if policy.provider == key.provider:
            return policy
    known = ", ".join(policy.provider for policy in providers.policies(key.agent)) or "none"
    raise InvalidInput(f"{key.agent} has no provider {key.provider!r}; it has {known}", provider=key.provider)
