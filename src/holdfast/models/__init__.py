"""Language models: choosing and configuring them, the vendors' adapters, and the offline practice model."""
