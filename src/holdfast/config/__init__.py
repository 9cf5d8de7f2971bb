"""The configuration: `holdfast.toml`, read once, validated, passed on as frozen values.

Without a file every valid name is an agent with the defaults; with one, only those listed are (D38). Every error
names the file, the key, its value and what would be right; a secret is named, never written or shown.
"""

from holdfast.config.reading import FILE, FILE_BYTES_MAX, Config, load_config, parse_config
from holdfast.config.secrets import SecretFact
from holdfast.config.tables import AgentTable, Compression, Intake, ServerLimitsTable, ServerTable, Turns
from holdfast.config.template import TEMPLATE

__all__ = [
    "FILE",
    "FILE_BYTES_MAX",
    "TEMPLATE",
    "AgentTable",
    "Compression",
    "Config",
    "Intake",
    "SecretFact",
    "ServerLimitsTable",
    "ServerTable",
    "Turns",
    "load_config",
    "parse_config",
]
