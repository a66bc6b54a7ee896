"""The engine inside a calibrated model. It knows tensors and modules, and no other package."""

from fairspan.attention.interface import register

# Worker processes rebuild a model by importing its parts, so this import must be enough.
register()
