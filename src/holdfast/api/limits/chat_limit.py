"""The service for a caller with a limited rate of new chats. All other methods are passed through."""

from typing import Any

from holdfast.api.limits.admission import Admission, Requester
from holdfast.inbox.address import Address, agent_name
from holdfast.inbox.message import AcceptOutcome
from holdfast.runtime.runtime import Runtime


class ChatLimitedService:
    def __init__(self, service: Runtime, admission: Admission, who: Requester) -> None:
        self._inner = service
        self._admission = admission
        self._who = who

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of the service
        return getattr(self._inner, name)

    async def accept(
        self,
        chat: str,
        text: str,
        *,
        agent: str | None = None,
        channel: str = "http",
        **more: Any,  # noqa: ANN401
    ) -> AcceptOutcome:
        """Accept a message as the service does. Raises `TooManyChats` before a chat beyond the limit is created."""
        whom = agent_name(self._inner.default_agent if agent is None else agent)
        address = str(Address(agent=whom, channel=channel, type="dm", chat=chat))

        async def exists() -> bool:
            return await self._inner.mailbox(address) is not None

        await self._admission.admit_chat(self._who, address, exists)
        return await self._inner.accept(chat, text, agent=agent, channel=channel, **more)
