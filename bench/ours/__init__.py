"""Holdfast as a contestant, through its public interface: `holdfast.open`, `Runtime` and `holdfast up`."""
