"""The JSON shapes of the API and of `--json`. People script against them, so they are kept stable."""
