"""Finds the tensors and layers that `model.to(device)` leaves behind, and repairs them."""

__version__ = "0.1.0"
