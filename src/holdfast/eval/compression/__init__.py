"""Measuring compression (R29): facts are planted, the conversation is compressed, and the facts are looked for."""

from holdfast.eval.compression.report import CompressionReport
from holdfast.eval.compression.run import EvaluationPlan, measure

__all__ = ["CompressionReport", "EvaluationPlan", "measure"]
