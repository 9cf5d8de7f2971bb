"""What holds for every test: examples are never failed for being slow on a busy machine."""

from hypothesis import settings

settings.register_profile("holdfast", deadline=None, print_blob=True)
settings.load_profile("holdfast")
