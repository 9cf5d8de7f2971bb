"""What is remembered: deliveries to providers, recall, notes and their files, forgetting."""
