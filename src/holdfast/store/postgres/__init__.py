"""Scripts on PostgreSQL, through psycopg and libpq (the optional extra `postgres`)."""

from holdfast.store.postgres.database import PostgresDatabase as PostgresDatabase
