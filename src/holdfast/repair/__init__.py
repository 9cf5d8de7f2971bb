"""What an operator mends: findings about the store and their repairs, and a store that was restored from a backup."""
