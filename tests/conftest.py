"""What all tests share: property tests draw the same cases in every run and have no deadline on a busy machine."""

from hypothesis import settings

settings.register_profile("hesper", deadline=None, derandomize=True)
settings.load_profile("hesper")
