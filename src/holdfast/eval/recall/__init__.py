"""How well the local provider finds what was said: conversations whose questions name their evidence."""

from holdfast.eval.recall.conversations import read_conversations
from holdfast.eval.recall.run import RecallReport, measure

__all__ = ["RecallReport", "measure", "read_conversations"]
