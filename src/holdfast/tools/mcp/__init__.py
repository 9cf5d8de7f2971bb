"""Tools of MCP servers. `connection` needs the extra `mcp`, and is imported only if a server is configured."""

from holdfast.tools.mcp.settings import McpSettings, read_settings
from holdfast.tools.mcp.tools import McpTools

__all__ = ["McpSettings", "McpTools", "read_settings"]
