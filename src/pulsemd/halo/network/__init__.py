"""Device code that reaches GPUs whose memory cannot be stored to directly, through NVSHMEM's own device library."""
