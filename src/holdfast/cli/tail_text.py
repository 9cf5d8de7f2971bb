"""An event of the tail as one line of text."""

from datetime import datetime

from holdfast.cli.output import visible
from holdfast.cli.timeline_text import MARKS, PLAIN_MARKS
from holdfast.cli.times import zone
from holdfast.monitor.tail import TailEvent


def event_line(event: TailEvent, *, plain: bool = False) -> str:
    """`18:02:07 main  ada in home: accepted: Where is order B-1077?  (msg_01k...)`"""
    at = datetime.fromtimestamp(event.at / 1000, zone()).strftime("%H:%M:%S")
    mark = (PLAIN_MARKS if plain else MARKS)[event.mark]
    words = f": {' '.join(event.text.split())}" if event.text else ""
    proof = f"  ({event.proof})" if event.proof else ""
    return visible(f"{at} {event.agent}  {mark}{event.what}{words}{proof}")
