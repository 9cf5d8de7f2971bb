"""Hindsight: turns and notes as documents in its banks. `make_hindsight` is the factory.

Importing this package loads nothing of the vendor's: its client library takes seconds, and is an extra.
"""

from holdfast.providers.hindsight.factory import make_hindsight

__all__ = ["make_hindsight"]
