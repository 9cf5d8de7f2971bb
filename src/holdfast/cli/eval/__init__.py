"""`holdfast eval`: measurements, one command each. A new one is an import and a place in MEASUREMENTS."""

import typer

from holdfast.cli.eval.compression import compression
from holdfast.cli.eval.recall import recall

MEASUREMENTS = (compression, recall)

eval_app = typer.Typer(
    name="eval",
    help="Measure how well compression and recall do.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for measurement in MEASUREMENTS:
    eval_app.command()(measurement)


@eval_app.callback()
def evaluate() -> None:
    """Measure how well compression and recall do."""
