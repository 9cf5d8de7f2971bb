"""The database: scripts, the two engines that run them, the schema, encryption at rest."""
