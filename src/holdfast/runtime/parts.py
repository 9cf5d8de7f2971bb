"""The components of one process that its loops and the runtime share."""

from dataclasses import dataclass

from holdfast.inbox.gateway import Gateway
from holdfast.memory.notes_service import NotesService
from holdfast.memory.provider import Providers
from holdfast.memory.recaller import Recaller
from holdfast.sessions.compressor import Compressor
from holdfast.store.membership import Member
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agents
from holdfast.turns.context_cache import Briefing, ContextCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    ports: Ports
    agents: Agents
    member: Member
    contexts: ContextCache
    compressor: Compressor
    providers: Providers
    notes: NotesService
    briefing: Briefing
    recaller: Recaller
    gateway: Gateway
