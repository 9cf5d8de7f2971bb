"""The configuration: `holdfast.toml` is read once, validated, and passed on as frozen values.

Without a file, every valid name is an agent with the defaults; with a file, only the listed agents exist (D38). Every
error names the file, the key, its value and the correction. The file refers to secrets and never contains them.
"""

from holdfast.config.reading import (
    FILE,
    FILE_BYTES_MAX,
    Config,
    Reading,
    faultless,
    load_config,
    load_reading,
    parse_config,
)
from holdfast.config.secrets import SecretFact
from holdfast.config.tables import HOST, PORT, AgentTable, ServerTable

__all__ = [
    "FILE",
    "FILE_BYTES_MAX",
    "HOST",
    "PORT",
    "AgentTable",
    "Config",
    "Reading",
    "SecretFact",
    "ServerTable",
    "faultless",
    "load_config",
    "load_reading",
    "parse_config",
]
