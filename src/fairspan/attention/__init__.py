"""The engine inside a calibrated model. It knows tensors and modules, and nothing of the rest of fairspan."""

from fairspan.attention.interface import register

# Worker processes rebuild a model by importing what it is made of, so importing this package must be enough.
register()
