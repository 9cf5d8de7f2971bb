"""Evaluations: how well things work that cannot simply be right or wrong. Each has a command, `holdfast eval ...`."""
