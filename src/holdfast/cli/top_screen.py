"""The full screen of `holdfast top`, made with Textual.

Rule 1: numbers change in place; rows keep their order and the cursor its row.
Rule 2: the screen says when it was true. When the store does not answer, it says so and keeps what it showed.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Label, RichLog, Static

from holdfast.cli.output import visible
from holdfast.cli.overview import StoreOverview
from holdfast.cli.overview_text import (
    AGENT_COLUMNS,
    NEED_COLUMNS,
    TURN_COLUMNS,
    agent_cells,
    need_cells,
    process_lines,
    turn_cells,
)
from holdfast.cli.tail_text import event_line
from holdfast.cli.timeline_text import timeline_lines
from holdfast.cli.times import local_time, shown_in, zone
from holdfast.kernel.errors import HoldfastError
from holdfast.monitor.status import Need, Urgency
from holdfast.monitor.tail import TailEvent
from holdfast.monitor.timeline import Timeline

LOOK_EVERY_S = 1.0
EVENTS_KEPT = 1_000


STYLES = {Urgency.HOLDS_UP.value: "yellow", Urgency.STUCK.value: "red"}


def _cell(text: str) -> Text:
    return Text(visible(text), style=STYLES.get(text, ""))


class Source(Protocol):
    async def overview(self) -> StoreOverview: ...

    async def events(self) -> Sequence[TailEvent]: ...

    async def timeline(self, message: str) -> Timeline: ...


class TextPage(ModalScreen[None]):
    """Some lines over the screen; any of the keys closes it."""

    CSS = "TextPage { align: center middle } #page { width: 90%; height: 90%; border: round $accent; padding: 0 1 }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Close")]

    def __init__(self, lines: Iterable[str]) -> None:
        super().__init__()
        self.lines = [visible(line) for line in lines]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="page"):
            yield Static(Text("\n".join(self.lines)))


class TopScreen(App[None]):
    TITLE = "Holdfast"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #headline { text-style: bold; padding: 0 1 }
    #second, #process, #stamp { color: $text-muted; padding: 0 1 }
    .title { text-style: bold; color: $text-muted; padding: 1 1 0 1 }
    .empty { display: none }
    DataTable { height: auto; max-height: 30%; scrollbar-size: 1 1; background: $background }
    DataTable > .datatable--header { text-style: none; color: $text-muted; background: $background }
    DataTable > .datatable--cursor { background: $background; color: $text; text-style: none }
    DataTable:focus > .datatable--cursor { background: $surface-lighten-2 }
    #events { height: 1fr; min-height: 4; background: $background; padding: 0 1; scrollbar-size: 1 1 }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("r", "look", "Look now"),
        Binding("u", "utc", "UTC or local"),
    ]

    def __init__(self, source: Source, *, utc: bool) -> None:
        super().__init__()
        self._source = source
        self._utc = utc
        self._needs: dict[str, Need] = {}
        self._messages: dict[str, str] = {}  # of the turns, by the key of their row

    def compose(self) -> ComposeResult:
        yield Static(id="headline", markup=False)
        yield Static(id="second", markup=False)
        yield Static(id="process", markup=False)
        for name, title in (("needs", "Needs"), ("agents", "Agents"), ("turns", "Turns")):
            yield Label(title, classes="title", id=f"{name}-title")
            yield DataTable[Text](id=name, cursor_type="row")
        yield Label("What happens", classes="title")
        yield RichLog(id="events", max_lines=EVENTS_KEPT, wrap=True, min_width=1)
        yield Static(id="stamp", markup=False)
        yield Footer()

    async def on_mount(self) -> None:
        for name, columns in (("needs", NEED_COLUMNS), ("agents", AGENT_COLUMNS), ("turns", TURN_COLUMNS)):
            table = self._table(name)
            for column in columns:
                table.add_column(column, key=column)
        await self.action_look()
        self.set_interval(LOOK_EVERY_S, self.action_look)

    def _table(self, name: str) -> "DataTable[Text]":
        return self.query_one(f"#{name}", DataTable)

    # --- looking

    async def action_look(self) -> None:
        """Read everything once more, and show it."""
        try:
            found, events = await self._source.overview(), await self._source.events()
        except HoldfastError as error:
            self._say("stamp", f"not live: {error.code}: {error}")
            return
        with shown_in(utc=self._utc):
            self._show(found)
            for event in events:
                self.query_one("#events", RichLog).write(Text(event_line(event)), expand=True)

    async def action_utc(self) -> None:
        self._utc = not self._utc
        await self.action_look()

    def _show(self, found: StoreOverview) -> None:
        status = found.status
        self._say("headline", str(found.headline))
        self._say("second", " · ".join(found.headline.second))
        self._say("process", "\n".join(process_lines(found)))
        self._needs = {f"{need.kind.value} {need.agent} {need.subject} {need.what}": need for need in status.needs}
        self._messages = {f"{turn.session}/{turn.n} {turn.message}": turn.message for turn in status.running}
        self._fill("needs", {key: need_cells(need) for key, need in self._needs.items()})
        self._fill("agents", {one.row.agent: agent_cells(one) for one in found.agents})
        turns = {key: turn_cells(turn) for key, turn in zip(self._messages, status.running, strict=False)}
        self._fill("turns", turns)
        self._say("stamp", f"true as of {local_time(status.at)}, live")

    def _say(self, name: str, text: str) -> None:
        """An empty text takes no line."""
        place = self.query_one(f"#{name}", Static)
        place.set_class(not text, "empty")
        place.update(Text(visible(text)))

    def _fill(self, name: str, wanted: dict[str, Sequence[str]]) -> None:
        """Show these rows by their keys: in place if the rows are the same, otherwise with the cursor on its row."""
        table = self._table(name)
        for place in (table, self.query_one(f"#{name}-title")):
            place.set_class(not wanted, "empty")
        shown = [str(row.key.value) for row in table.ordered_rows]
        if shown == list(wanted):
            columns = [column.key for column in table.ordered_columns]
            for key, cells in wanted.items():
                for column, cell in zip(columns, cells, strict=True):
                    if table.get_cell(key, column).plain != visible(cell):
                        table.update_cell(key, column, _cell(cell), update_width=True)
            return
        chosen = shown[table.cursor_row] if 0 <= table.cursor_row < len(shown) else None
        table.clear()
        for key, cells in wanted.items():
            table.add_row(*map(_cell, cells), key=key)
        if chosen in wanted:
            table.move_cursor(row=list(wanted).index(chosen))

    # --- details

    async def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        key, name = str(event.row_key.value), event.data_table.id
        message = self._messages.get(key) if name == "turns" else None
        if name == "needs" and key in self._needs:
            need = self._needs[key]
            message = need.subject if need.subject.startswith("msg_") else None
            if message is None:
                self.push_screen(TextPage([need.what, need.evidence, "", "Type this:", need.command]))
        if message is not None:
            await self._show_timeline(message)

    async def _show_timeline(self, message: str) -> None:
        try:
            told = await self._source.timeline(message)
        except HoldfastError as error:
            self.push_screen(TextPage([f"{error.code}: {error}", error.hint]))
            return
        with shown_in(utc=self._utc):
            width = max(40, self.size.width * 9 // 10 - 6)
            self.push_screen(TextPage([message, "", *timeline_lines(told, zone(), width=width)]))
