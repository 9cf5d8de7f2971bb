"""Authentication and authorization: the guard, access tokens, browser logins, and the service as a token sees it."""
