"""Built-in tools, tools of MCP servers (mcp/), and Python functions as tools (toolbox.py)."""
