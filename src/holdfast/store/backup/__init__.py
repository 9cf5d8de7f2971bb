"""Backups of a data folder: made beside a serving process, verified, and restored into an empty folder."""
