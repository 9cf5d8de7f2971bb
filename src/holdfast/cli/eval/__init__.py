"""`holdfast eval`: measurements, one command each."""

from holdfast.cli.command import command_group
from holdfast.cli.eval.compression import compression
from holdfast.cli.eval.recall import recall

eval_app = command_group("eval", "Measure the quality of compression and recall.")
eval_app.command()(compression)
eval_app.command()(recall)
