"""Devices as one small surface; the only place that imports CUDA."""
