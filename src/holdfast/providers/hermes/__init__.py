"""A memory provider of Hermes Agent, hosted behind Holdfast's durable delivery."""

from holdfast.providers.hermes.factory import make_hermes

__all__ = ["make_hermes"]
