"""What an operator mends: deliveries, replies and messages that do not go on by themselves, and a restored store."""
