"""Mutation testing of the decisions and the store verbs: `python -m tools.mutation --help`."""
