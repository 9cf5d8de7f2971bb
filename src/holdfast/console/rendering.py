"""Templates: Jinja with every value escaped, imported when the first page is requested.

Rule 1: an undefined name in a template is an error, never an empty place.
Rule 2: an instant is written in UTC with its milliseconds beside it; the script writes it in the browser's zone.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from holdfast.console.assets import asset_path
from holdfast.kernel.ids import Instant
from holdfast.monitor.durations import duration

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

THIN = "\u202f"  # between groups of digits
FORMS = {
    "time": "%H:%M:%S",
    "milli": "%H:%M:%S.%f",
    "minute": "%H:%M",
    "day": "%d %b %H:%M",
    "full": "%d %b %Y %H:%M:%S",
}


def render(template: str, values: Mapping[str, Any]) -> str:
    return environment().get_template(template).render(values)


@cache
def environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - a gateway that shows no page

    made = Environment(
        loader=PackageLoader("holdfast.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"duration": duration, "when": when, "number": number, "short": short_number, "middle": middle}
    made.globals |= {"asset": asset_path}
    return made


def when(at: Instant | None, form: str = "time") -> "Markup":
    """An instant as a `time` element; a dash for none."""
    from markupsafe import Markup  # noqa: PLC0415 - as above

    if at is None:
        return Markup('<span class="faint">\u2013</span>')
    moment = datetime.fromtimestamp(at / 1000, UTC)
    text = moment.strftime(FORMS[form]).lstrip("0") if form in {"day", "full"} else moment.strftime(FORMS[form])
    text = f"{text[:-3] if form == 'milli' else text} UTC"
    return Markup('<time datetime="{}" data-at="{}" data-form="{}">{}</time>').format(
        moment.isoformat(timespec="milliseconds"), int(at), form, text
    )


def number(count: float) -> str:
    """A whole number with its digits in groups: `84 312`."""
    return f"{int(count):,}".replace(",", THIN)


def short_number(count: float) -> str:
    """A large number in two or three digits: `412 k`, `1.1 M`."""
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            digits = f"{count / size:.1f}" if count < 10 * size else f"{count / size:.0f}"
            return f"{digits.removesuffix('.0')}{THIN}{name}"
    return str(int(count))


def middle(text: str, chars: int = 28) -> str:
    """A long id without its middle."""
    return text if len(text) <= chars else f"{text[: chars // 2]}…{text[-(chars - chars // 2 - 1) :]}"
