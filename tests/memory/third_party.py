"""A provider as a third party would ship it: it uses the provider port and nothing else of Holdfast."""

from collections.abc import Sequence

from holdfast.kernel.errors import ConfigInvalid
from holdfast.memory.delivery import Delivered, Landing, Op, Outcome, Parcel, PerAddress
from holdfast.memory.provider import Capabilities, Configured, ProviderSetup
from holdfast.memory.recall import RecallQuery, Recollection

BOOKS: dict[str, list[str]] = {}  # by the name that the settings give


class BookProvider:
    """Implements `Provider`."""

    capabilities = Capabilities(renderer="book/1", memory=False)

    def __init__(self, book: str) -> None:
        self._book = BOOKS.setdefault(book, [])
        self._known: set[str] = set()

    async def deliver(self, parcels: Sequence[Parcel]) -> list[Outcome]:
        return [self._write(parcel) for parcel in parcels]

    def _write(self, parcel: Parcel) -> Outcome:
        if parcel.id not in self._known and parcel.op is Op.RETAIN:
            self._known.add(parcel.id)
            self._book.extend(line.text for turn in parcel.turns for line in turn.lines if line.role == "user")
        return Delivered(parcel.id)

    async def landed(self, parcel: Parcel) -> Landing:
        return Landing.LANDED if parcel.id in self._known else Landing.ABSENT

    async def recall(self, query: RecallQuery) -> list[Recollection]:
        return []

    async def healthy(self) -> str | None:
        return None

    async def close(self) -> None:
        """There is nothing to give back."""


def make_book(setup: ProviderSetup) -> Configured:
    book, every = setup.settings.get("book"), setup.settings.get("every_turns", 1)
    if not isinstance(book, str) or not isinstance(every, int):
        raise ConfigInvalid("book must be the name of a book, and every_turns a number", key="book")
    return Configured(BookProvider(book), PerAddress(), every_turns=every)
