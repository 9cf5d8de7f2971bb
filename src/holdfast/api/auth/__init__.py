"""Who may call the API: the guard, access tokens, logins of browsers, and what a token may see."""
