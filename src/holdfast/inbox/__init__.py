"""A message becomes durable: its address, who may send it, the limits, and the transaction that accepts it."""
