"""The tests of msmq; they mirror the package."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "msmq",
    deadline=None,
    max_examples=100,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("msmq")
