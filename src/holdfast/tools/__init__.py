"""Tools that every agent may have, and tools of MCP servers. Python functions are offered by loops/toolbox.py."""
