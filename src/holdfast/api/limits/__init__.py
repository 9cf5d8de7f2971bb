"""How much of the HTTP server one client, one token and all of them together may use."""
