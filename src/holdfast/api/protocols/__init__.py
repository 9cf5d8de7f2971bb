"""What the API asks of a running Holdfast."""
