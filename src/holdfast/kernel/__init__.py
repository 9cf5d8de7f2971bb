"""What every other package uses and what knows nothing of conversations: ids, errors, clock, tasks, notifier, log."""
