"""Measuring recall of the local provider, with conversations whose questions name their evidence."""

from holdfast.eval.recall.run import RecallReport, measure
from holdfast.eval.recall.transcripts import read_conversations

__all__ = ["RecallReport", "measure", "read_conversations"]
