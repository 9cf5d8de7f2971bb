"""What compression keeps (R29): facts are planted, the conversation is compressed, and the facts are looked for."""

from holdfast.eval.compression.report import Report
from holdfast.eval.compression.run import Plan, measure

__all__ = ["Plan", "Report", "measure"]
