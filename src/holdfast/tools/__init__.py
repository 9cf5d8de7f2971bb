"""Tools that every agent may have, and tools of MCP servers. Python functions are offered by tools/toolbox.py."""
