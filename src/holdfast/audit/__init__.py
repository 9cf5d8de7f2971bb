"""The audit trail: privileged acts, who performed them, and the operations that operators start."""
