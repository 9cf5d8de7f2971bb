"""Modules that every package uses and that do not depend on conversations: ids, errors, clock, tasks, notifier, log."""
