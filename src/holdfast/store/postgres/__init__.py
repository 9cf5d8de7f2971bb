"""Scripts on PostgreSQL, through psycopg and libpq (the optional extra `postgres`)."""

from holdfast.store.postgres.database import PostgresDatabase as PostgresDatabase
from holdfast.store.postgres.migrate import Migration as Migration
from holdfast.store.postgres.migrate import known_migrations as known_migrations
