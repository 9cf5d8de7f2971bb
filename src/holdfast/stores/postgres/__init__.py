"""Scripts on PostgreSQL, through asyncpg (the optional extra `postgres`)."""

from holdfast.stores.postgres.database import PostgresDatabase as PostgresDatabase
from holdfast.stores.postgres.migrate import Migration as Migration
from holdfast.stores.postgres.migrate import known_migrations as known_migrations
