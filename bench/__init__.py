"""Side by side with peers: the same work, the same durability, ratios within one run."""
