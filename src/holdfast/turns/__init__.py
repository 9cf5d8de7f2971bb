"""A message becomes an answer: the turn and its journal, the context, the model, tool calls, approvals, spend."""
