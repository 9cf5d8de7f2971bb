from tests.servers import postgres_server

__all__ = ["postgres_server"]
