"""LangGraph: AsyncSqliteSaver alone, and a compiled graph with it."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from bench import texts
from bench.work import Conversations

PAIR: list[AnyMessage] = [HumanMessage(content=texts.USER), AIMessage(content=texts.ASSISTANT)]


class Saver(Conversations):
    """A turn reads the newest checkpoint and writes the next one. A checkpoint holds the whole conversation."""

    async def open(self) -> None:
        self._closing = AsyncSqliteSaver.from_conn_string(str(self.folder / "checkpoints.db"))
        self.saver = await self._closing.__aenter__()
        await self.saver.setup()

    async def prepare(self, names: Sequence[str], messages: int) -> None:
        for name in names:
            await self._put(name, None, PAIR * (messages // 2))

    async def turn(self, name: str, n: int) -> None:
        del n
        found = await self.saver.aget_tuple(config(name))
        messages = found.checkpoint["channel_values"]["messages"] if found else []
        await self._put(name, found, [*messages, *PAIR])

    async def _put(self, name: str, found: Any, messages: list[AnyMessage]) -> None:  # noqa: ANN401
        step = found.metadata["step"] + 1 if found else 0
        made = create_checkpoint(found.checkpoint if found else empty_checkpoint(), None, step)
        made["channel_values"] = {"messages": messages}
        made["channel_versions"] = {"messages": step + 1}
        where = found.config if found else config(name)
        await self.saver.aput(where, made, {"source": "loop", "step": step}, {"messages": step + 1})

    async def close(self) -> None:
        await self._closing.__aexit__(None, None, None)


class Answers(Saver):
    """A graph of one node that answers at once; every step is durable before the next (durability="sync")."""

    async def open(self) -> None:
        await super().open()
        graph = StateGraph(MessagesState)
        graph.add_node("model", answer)
        graph.add_edge(START, "model")
        graph.add_edge("model", END)
        self._graph = graph.compile(checkpointer=self.saver)

    async def prepare(self, names: Sequence[str], messages: int) -> None:
        kinds = (HumanMessage, AIMessage)
        said = [kinds[n % 2](content=texts.message(n)) for n in range(messages)]
        for name in names:
            await self._graph.aupdate_state(config(name), {"messages": said})

    async def turn(self, name: str, n: int) -> None:
        asked = {"messages": [HumanMessage(content=texts.message(n))]}
        found = await self._graph.ainvoke(asked, config(name), durability="sync")
        assert found["messages"][-1].content == texts.ANSWER


def config(name: str) -> Any:  # noqa: ANN401 - a RunnableConfig
    return {"configurable": {"thread_id": name, "checkpoint_ns": ""}}


async def answer(state: MessagesState) -> dict[str, list[AnyMessage]]:
    del state
    return {"messages": [AIMessage(content=texts.ANSWER)]}
