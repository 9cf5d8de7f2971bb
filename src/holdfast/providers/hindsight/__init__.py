"""Hindsight: turns and notes as documents in its banks. `make_hindsight` is the factory.

factory (settings) -> provider -> document_writer, recall -> client -> the vendor's client over transport.
Importing this package does not import the vendor's library, which takes seconds and is an extra.
"""

from holdfast.providers.hindsight.factory import make_hindsight

__all__ = ["make_hindsight"]
