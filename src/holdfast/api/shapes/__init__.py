"""The JSON shapes of the API and of `--json`. They are stable, because scripts depend on them."""
